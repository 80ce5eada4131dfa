// Runs before the page is drawn, so that a chosen theme does not flash in after the other one.
(() => {
  try {
    const theme = localStorage.getItem("turnkeeper.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // storage may be forbidden: the system's theme it is
  }
})();
