// Keeps the page live: it receives the two parts that change as server-sent events and patches them
// into the document, so that focus, selection and what the viewer typed stay.
"use strict";

const byId = id => document.getElementById(id);
const root = document.documentElement;
let source = null;
let heard = 0; // when the stream last gave a sign of life
let paused = document.body.hasAttribute("data-paused");

// patch makes the children of now like those of want. Elements with the same data-key are the same.
function patch(now, want) {
	const keyed = new Map();
	for (const child of now.children) if (child.dataset?.key !== undefined) keyed.set(child.dataset.key, child);
	let at = now.firstChild;
	for (const next of [...want.childNodes]) {
		const key = next.dataset?.key;
		let same = key !== undefined ? keyed.get(key) : at;
		if (key === undefined && at?.dataset?.key !== undefined) same = null;
		if (same && (same.nodeType !== next.nodeType || same.nodeName !== next.nodeName)) same = null;
		if (!same) {
			now.insertBefore(document.importNode(next, true), at);
			continue;
		}
		if (same !== at) now.insertBefore(same, at);
		else at = at.nextSibling;
		if (same.nodeType === Node.ELEMENT_NODE) {
			attributes(same, next);
			patch(same, next);
		} else if (same.nodeValue !== next.nodeValue) {
			same.nodeValue = next.nodeValue;
		}
	}
	while (at) {
		const gone = at;
		at = at.nextSibling;
		gone.remove();
	}
}

// attributes makes those of now like those of want. Whether details are open is the viewer's.
function attributes(now, want) {
	for (const { name, value } of [...want.attributes]) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
	for (const { name } of [...now.attributes]) if (name !== "open" && !want.hasAttribute(name)) now.removeAttribute(name);
}

function show(id, html) {
	const focused = document.activeElement;
	patch(byId(id), new DOMParser().parseFromString(html, "text/html").body);
	if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }); // its row has moved
}

// listen opens the stream, or closes it: while the page is paused, or in a tab that is not seen.
function listen() {
	source?.close();
	source = null;
	const address = document.body.dataset.events;
	if (paused || document.hidden || !address) return;
	source = new EventSource(address);
	heard = Date.now();
	source.addEventListener("open", () => {
		heard = Date.now();
		root.classList.remove("cut");
	});
	source.addEventListener("error", () => {
		root.classList.add("cut");
		if (source?.readyState === EventSource.CLOSED) setTimeout(listen, 5000); // refused: not tried again by itself
	});
	for (const part of ["status", "content", "alive"]) {
		source.addEventListener(part, event => {
			heard = Date.now();
			if (part !== "alive") show(part, event.data);
		});
	}
}

// A network that is gone ends no stream, and a computer that slept wakes up with an old page. So a
// stream that has been silent for a minute is opened again; until it answers, the page is cut off.
setInterval(() => {
	const silent = Date.now() - heard;
	if (!source || silent < (source.readyState === EventSource.OPEN ? 60000 : 5000)) return;
	root.classList.add("cut");
	if (silent >= 60000) listen();
}, 1000);

// go changes the page's parameters without loading it again.
function go(parameters) {
	const text = parameters.toString();
	const path = location.pathname.split("/").pop() || "locks";
	history.replaceState(null, "", `./${path}${text ? "?" + text : ""}`);
	parameters.delete("pause");
	parameters.set("page_of", path);
	document.body.dataset.events = `./events?${parameters}`;
	listen();
}

function pause() {
	paused = !paused;
	root.classList.toggle("paused", paused);
	const link = byId("pause");
	if (link) link.textContent = paused ? "Go on" : "Pause";
	const parameters = new URLSearchParams(location.search);
	if (paused) parameters.set("pause", "1");
	else parameters.delete("pause");
	go(parameters);
}

const themes = ["", "light", "dark"];

function theme(step) {
	const now = themes[(themes.indexOf(root.dataset.theme ?? "") + step) % themes.length];
	if (now) root.dataset.theme = now;
	else delete root.dataset.theme;
	byId("theme").textContent = `Theme: ${now || "auto"}`;
	try {
		if (now) localStorage.setItem("redlatch-theme", now);
		else localStorage.removeItem("redlatch-theme");
	} catch { /* no storage: for this page alone */ }
}

const help = byId("help");
for (const id of ["theme", "keys"]) byId(id).hidden = false;
theme(0);
byId("theme").addEventListener("click", () => theme(1));
byId("keys").addEventListener("click", () => help.showModal());
byId("pause")?.addEventListener("click", event => {
	event.preventDefault();
	pause();
});
root.classList.toggle("paused", paused);

const form = byId("search");
let soon = 0;
form?.addEventListener("input", () => {
	clearTimeout(soon);
	soon = setTimeout(() => {
		const parameters = new URLSearchParams();
		for (const [key, value] of new FormData(form)) if (value) parameters.set(key, value);
		if (paused) pause();
		go(parameters);
	}, 200);
});
form?.addEventListener("submit", event => {
	event.preventDefault();
	form.dispatchEvent(new Event("input"));
});

// A button copies what it is for, or selects the text before it where there is no clipboard.
document.addEventListener("click", async event => {
	const button = event.target.closest("button.copy");
	if (!button) return;
	try {
		await navigator.clipboard.writeText(button.dataset.copy);
		button.textContent = "Copied";
	} catch {
		getSelection().selectAllChildren(button.previousElementSibling ?? button.parentElement);
	}
});

// step moves the focus to the next row, or the one before.
function step(by) {
	const rows = [...document.querySelectorAll("#content th a.name, #content .card h2 a, #content summary")];
	if (!rows.length) return;
	const at = rows.indexOf(document.activeElement);
	const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
	rows[next].focus();
	rows[next].scrollIntoView({ block: "nearest" });
}

const keys = {
	"/": () => form?.querySelector("input").focus(),
	"?": () => help.showModal(),
	j: () => step(1),
	k: () => step(-1),
	p: () => byId("pause") && pause(),
	t: () => theme(1),
	u: () => location.assign("./locks"),
};

document.addEventListener("keydown", event => {
	if (event.key === "Escape" && event.target.matches("input")) event.target.blur();
	if (event.ctrlKey || event.metaKey || event.altKey || help.open || event.target.matches("input, select, textarea")) return;
	const link = document.querySelectorAll("nav[aria-label=Pages] a")[Number(event.key) - 1];
	const does = link ? () => link.click() : keys[event.key];
	if (!does) return;
	event.preventDefault();
	does();
});

document.addEventListener("visibilitychange", listen);
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", event => event.persisted && listen());
listen();
