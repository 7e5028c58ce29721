import './view.css';
import './sidebar.css';
