// Tells the view of another theme of the page: of JupyterLab, of other front ends, or of the system.

/** Calls `changed` a frame after each change of the theme; returns a function that ends that. */
export function watchTheme(changed: () => void): () => void {
  // JupyterLab hides its page as it tells of a theme, and shows it in the next frame; a hidden view has no colours to read
  const soon = () => void requestAnimationFrame(changed);
  const loaded = (event: Event) => {
    if (event.target instanceof HTMLLinkElement) {
      soon(); // a style sheet, perhaps that of the theme, which may come after the attributes
    }
  };
  const themes = new MutationObserver(soon);
  themes.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light', 'data-jp-theme-name', 'data-jmars-states', 'class', 'data-theme'] });
  themes.observe(document.documentElement, { attributes: true, attributeFilter: ['class', 'data-theme'] });
  document.addEventListener('load', loaded, true);
  const dark = window.matchMedia?.('(prefers-color-scheme: dark)');
  dark?.addEventListener?.('change', soon);
  return () => {
    themes.disconnect();
    document.removeEventListener('load', loaded, true);
    dark?.removeEventListener?.('change', soon);
  };
}
