// Sets the theme before the first paint. It is "light", "dark", or absent: as the system has it.
"use strict";
try {
	const theme = localStorage.getItem("redlatch-theme");
	if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: the theme of the system */ }
document.documentElement.classList.add("scripted");
