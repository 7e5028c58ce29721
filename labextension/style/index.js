import './view.css';
import './states.css';
import './sidebar.css';
import './lab.css';
import './editor.css';
