package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchweb"
)

// patience is for one page on a busy machine: axe-core alone takes 20 s there for a long one.
const patience = 3 * time.Minute

// The browser that all tests share, each in a tab of its own.
var allocator context.Context

func TestMain(m *testing.M) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	allocator, _ = chromedp.NewContext(ctx)
	code := m.Run()
	cancel()
	os.Exit(code)
}

// needChromium skips the test on a machine that has none.
func needChromium(t *testing.T) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	check.Must(t, os.Getenv("REDLATCH_AXE") == "", "chromium is not installed")
	t.Skip("chromium is not installed: `make web` installs it")
}

// tab is a page of the browser, and what it complained about.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu         sync.Mutex
	complaints []string
}

// view is how a viewer looks at a page.
type view struct {
	width, height int64
	dark          bool
}

var views = map[string]view{
	"wide":        {1280, 860, false},
	"wide-dark":   {1280, 860, true},
	"narrow":      {320, 720, false},
	"narrow-dark": {320, 720, true},
}

// open starts the gallery and a tab that is to look at it.
func open(t *testing.T, v view) *tab {
	t.Helper()
	needChromium(t)
	gallery := redlatchweb.Gallery()
	server := httptest.NewServer(gallery)
	t.Cleanup(func() {
		gallery.Close()
		server.Close()
	})
	return openAt(t, server.URL, v)
}

func openAt(t *testing.T, url string, v view) *tab {
	t.Helper()
	check.OK(t, "Do", chromedp.Do(allocator)) // starts the browser, once
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, url: url}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.complain(fmt.Sprintf("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" || e.Type == "warning" {
				p.complain(fmt.Sprintf("console: %v", e.Args))
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == "error" || e.Entry.Level == "warning" {
				p.complain(fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL))
			}
		case *page.EventJavascriptDialogOpening:
			p.complain("dialog: " + e.Message)
		}
	})
	check.OK(t, "Listen", err)
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	check.OK(t, "Call", check.ErrorOf(chromedp.Call(ctx, log.Enable, cdp.Empty{})))
	check.OK(t, "Call", check.ErrorOf(chromedp.Call(ctx, emulation.SetEmulatedMedia, media)))
	p.run(chromedp.EmulateViewport(v.width, v.height))
	return p
}

func (p *tab) complain(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = append(p.complaints, text)
}

// quiet fails the test if the browser complained.
func (p *tab) quiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.complaints {
		p.t.Errorf("the browser complains: %s", c)
	}
	p.complaints = nil
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	check.OK(p.t, "Do", chromedp.Do(p.ctx, actions...))
}

func (p *tab) visit(path string) {
	p.t.Helper()
	p.run(chromedp.Navigate(p.url+"/"+path), chromedp.WaitReady("#content"))
}

// get runs an action and returns its value.
func get[T any](p *tab, action chromedp.Action[T]) T {
	p.t.Helper()
	return check.Value(chromedp.Run(p.ctx, action)).OK(p.t)
}

// value returns what an expression in the page comes to.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	return get(p, chromedp.Evaluate[T](expression))
}

// fits fails the test if the page is wider than its window.
func (p *tab) fits(state string, width int64) {
	p.t.Helper()
	wide := value[int64](p, `document.documentElement.scrollWidth`)
	check.That(p.t, wide <= width, "%s is %d px wide, in a window of %d", state, wide, width)
}

// await waits until an expression in the page is true.
func (p *tab) await(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(20*time.Second))); err != nil {
		p.t.Fatalf("await %s: %v", expression, err)
	}
}

// states are the pages of the gallery.
var states = []string{
	"empty/locks", "empty/processes", "empty/pools", "empty/leaders", "empty/nodes", "empty/health",
	"one/locks", "one/lock?name=nightly", "one/lock?name=free",
	"contended/locks", "contended/lock?name=invoice:2026-11:settle", "contended/lock?name=worker-ids", "contended/lock?name=mail:digest",
	"contended/lock?name=cache:warm", "contended/lock?name=jobs", "contended/lock?name=import:eu", "contended/lock?name=stock:warehouse-7",
	"contended/processes", "contended/pools", "contended/leaders", "contended/record", "contended/record?type=lost", "deadlock/locks", "deadlock/lock?name=account:7781", "empty/record", "denied/record",
	"contended/health", "contended/locks?q=nosuchlock",
	"many/locks", "queue/locks", "queue/lock?name=the:one", "down/locks", "down/lock?name=nightly", "slow/locks", "denied/locks",
	"denied/lock?name=nightly", "quorum/nodes", "mute/nodes", "hostile/locks", "hostile/processes", "hostile/leaders",
	"hostile/lock?name=%3Cscript%3Ealert(%221%22)%3C/script%3E", "contended/nosuchpage",
	"lost/locks", "lost/lock?name=mail:digest",
	"hostile/lock?name=" + strings.Repeat("tenant/4f3c2b1a/region/eu-west-1/customer/", 6) + "invoice",
}

// TestStates looks at each state in each view: the browser complains about nothing, nothing is
// wider than the window, and axe-core finds no violation.
func TestStates(t *testing.T) {
	axe := ""
	if file := os.Getenv("REDLATCH_AXE"); file != "" {
		text := check.Value(os.ReadFile(file)).OK(t)
		axe = string(text)
	}
	for name, v := range views {
		t.Run(name, func(t *testing.T) {
			for _, state := range states {
				t.Run(state, func(t *testing.T) {
					p := open(t, v)
					p.visit(state)
					if state == "contended/nosuchpage" {
						p.mu.Lock()
						p.complaints = nil // that of the 404 itself
						p.mu.Unlock()
					}
					if strings.HasPrefix(state, "lost/") {
						p.await(`document.querySelector(".notice.bad") !== null`)
					}
					p.fits(state, v.width)
					p.shoot(name, state)
					if axe != "" {
						p.examine(axe)
					}
					p.quiet()
				})
			}
		})
	}
	if axe == "" {
		t.Log("without axe-core: REDLATCH_AXE is not set; `make web` sets it")
	}
}

// examine runs axe-core in the page.
func (p *tab) examine(axe string) {
	p.t.Helper()
	p.run(chromedp.Evaluate[chromedp.Void](axe))
	found := get(p, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"]}).then(r =>
		r.violations.map(v => v.id + ": " + v.help + "\n" + v.nodes.map(n => "  " + n.target + " " + n.failureSummary).join("\n")).join("\n"))`,
		chromedp.EvalAwaitPromise))
	check.That(p.t, found == "", "axe-core finds\n%s", found)
}

// shoot writes a picture of the page into the directory that REDLATCH_SHOTS names, if it does.
func (p *tab) shoot(view, state string) {
	dir := os.Getenv("REDLATCH_SHOTS")
	if dir == "" {
		return
	}
	p.run(chromedp.Sleep(700 * time.Millisecond))
	png := get(p, chromedp.CaptureScreenshot())
	file := strings.NewReplacer("/", "-", "?", "-", ":", "-", "%", "", "=", "-").Replace(state)
	file = file[:min(len(file), 80)] + "." + view + ".png"
	check.OK(p.t, "WriteFile", os.WriteFile(filepath.Join(dir, file), png, 0o600))
}

// key presses one key.
func (p *tab) key(k string) { p.run(chromedp.KeyEvent(k)) }

// keyUntil presses a key until an expression in the page is true. The first updates may move the row
// that has the focus up or down, so that no fixed number of presses is sure to reach a row.
func (p *tab) keyUntil(k, expression string) {
	p.t.Helper()
	for range 100 {
		p.key(k)
		if value[bool](p, expression) {
			return
		}
	}
	p.t.Fatalf("%s: not after 100 times %q", expression, k)
}

// TestKeys goes through the list by keyboard, and opens a lock.
func TestKeys(t *testing.T) {
	p := open(t, views["wide"])
	p.visit("contended/locks")
	p.await(`document.documentElement.classList.contains("scripted")`)
	p.keyUntil("j", `document.activeElement.matches("#content tbody tr:not(:first-child) a.name")`)
	p.keyUntil("k", `document.activeElement === document.querySelector("#content tbody a.name")`)
	p.key("?")
	p.await(`document.querySelector("dialog").open`)
	p.run(chromedp.Click("dialog button"))
	p.await(`!document.querySelector("dialog").open`)
	p.key("/")
	p.await(`document.activeElement.name === "q"`)
	p.quiet()
}

// TestSearch narrows the list while the viewer types, and puts that into the address.
func TestSearch(t *testing.T) {
	p := open(t, views["wide"])
	p.visit("contended/locks")
	p.run(chromedp.SendKeys(`input[name=q]`, "gpu"))
	p.await(`location.search === "?q=gpu" && document.querySelectorAll("#content tbody tr").length === 1`)
	check.Equal(t, value[string](p, `document.activeElement.name`), "q", "the focus went to")
	p.run(chromedp.Reload())
	p.await(`document.querySelectorAll("#content tbody tr").length === 1 && document.querySelector("input[name=q]").value === "gpu"`)
	p.quiet()
}

// TestPause stops the stream and goes on with it.
func TestPause(t *testing.T) {
	p := open(t, views["wide"])
	p.visit("contended/locks")
	p.run(chromedp.Click("#pause"))
	p.await(`location.search === "?pause=1" && getComputedStyle(document.querySelector(".status .paused")).display !== "none"`)
	p.run(chromedp.Click("#pause"))
	p.await(`location.search === "" && document.querySelector("#pause").textContent === "Pause"`)
	p.quiet()
}

// TestSilentStream: the network is gone, and no connection ends. The page says so, and goes on when it is back.
func TestSilentStream(t *testing.T) {
	needChromium(t)
	gallery := redlatchweb.Gallery()
	gone, back := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			select {
			case <-back:
			case <-gone:
				<-back
			default:
				w = &cable{w, gone}
			}
		}
		gallery.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		gallery.Close()
		server.Close()
	})
	p := openAt(t, server.URL, views["wide"])
	p.visit("contended/locks")
	p.await(`document.documentElement.classList.contains("scripted") && source.readyState === EventSource.OPEN`)
	close(gone)
	p.run(chromedp.Evaluate[chromedp.Void](`{ const now = Date.now; Date.now = () => now() + 61000; }`))
	p.await(`getComputedStyle(document.querySelector("span.cut")).display !== "none"`)
	close(back)
	p.await(`getComputedStyle(document.querySelector("span.cut")).display === "none"`)
	p.quiet()
}

// cable swallows what is written after the network is gone.
type cable struct {
	http.ResponseWriter
	gone chan struct{}
}

func (c *cable) Write(text []byte) (int, error) {
	select {
	case <-c.gone:
		return len(text), nil
	default:
		return c.ResponseWriter.Write(text)
	}
}

func (c *cable) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// TestDense: twenty locks fit on a window of 1280 by 900, and at 360 pixels nothing is wider than
// the window, nor hidden.
func TestDense(t *testing.T) {
	p := open(t, view{1280, 900, false})
	p.visit("many/locks")
	p.await(`document.querySelectorAll("#content tbody tr").length >= 20`)
	if end := value[float64](p, `document.querySelectorAll("#content tbody tr")[19].getBoundingClientRect().bottom`); end > 900 {
		t.Errorf("the twentieth lock ends at %v px, in a window of 900", end)
	}
	p = open(t, view{360, 740, false})
	for _, state := range []string{"contended/locks", "contended/lock?name=invoice:2026-11:settle", "hostile/locks"} {
		p.visit(state)
		p.fits(state, 360)
	}
	p.quiet()
}

// TestEverythingByKeyboard: whatever can be clicked has a place in the order of the Tab key.
func TestEverythingByKeyboard(t *testing.T) {
	p := open(t, views["wide"])
	for _, state := range []string{"contended/locks", "contended/health", "contended/record", "one/lock?name=nightly"} {
		p.visit(state)
		p.await(`document.documentElement.classList.contains("scripted")`)
		lost := value[string](p, `[...document.querySelectorAll("a, button, summary, input, select")]
			.filter(e => e.tabIndex < 0 || e.matches("a:not([href])") || !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.type === "hidden"))
			.map(e => e.outerHTML).join("\n")`)
		check.Equal(t, lost, "", "%s: what the keyboard does not reach, or has no name", state)
	}
	p.quiet()
}

// TestCommandToCopy: a viewer that may not release a lock can copy the command that does it.
func TestCommandToCopy(t *testing.T) {
	p := open(t, views["wide"])
	p.visit("one/lock?name=nightly")
	p.await(`document.documentElement.classList.contains("scripted")`)
	p.run(chromedp.Click(".force summary"))
	command := value[string](p, `document.querySelector(".command code").textContent`)
	check.That(t, strings.HasPrefix(command, "redlatch release --force --owner rl-") && strings.HasSuffix(command, "-- nightly"), "the command is %q", command)
	check.Equal(t, value[string](p, `document.querySelector(".command button").dataset.copy`), command, "the button copies")
	p.shoot("wide", "one/lock-command")
	p.run(chromedp.Click("#pause"), chromedp.Click(".command button")) // the next picture would take "Copied" back
	p.await(`document.querySelector(".command button").textContent === "Copied" || getSelection().toString() !== ""`)
	p.quiet()
}

// TestTheme goes from that of the system to light and dark, and keeps it.
func TestTheme(t *testing.T) {
	p := open(t, views["wide"])
	p.visit("contended/locks")
	p.await(`document.querySelector("#theme").textContent === "Theme: auto"`)
	p.run(chromedp.Click("#theme"), chromedp.Click("#theme"))
	p.await(`document.querySelector("#theme").textContent === "Theme: dark"`)
	dark := `getComputedStyle(document.body).backgroundColor === "rgb(20, 20, 22)"`
	p.await(dark)
	p.run(chromedp.Reload())
	p.await(dark)
	p.quiet()
}

// TestWithoutScripts looks at the page as browsers do that run none: it loads itself again.
func TestWithoutScripts(t *testing.T) {
	p := open(t, views["wide"])
	off := emulation.SetScriptExecutionDisabledParams{Value: true}
	check.OK(t, "Call", check.ErrorOf(chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, off)))
	p.visit("contended/locks?q=gpu")
	html := get(p, chromedp.OuterHTML("html"))
	for _, want := range []string{`http-equiv="refresh"`, "render:gpu", `class="tool apply"`} {
		check.That(t, strings.Contains(html, want), "the page has no %s", want)
	}
	p.quiet()
}

// TestReleaseKeepsWhatIsTyped types into the form while the page goes on living around it: a notice above it
// goes away.
func TestReleaseKeepsWhatIsTyped(t *testing.T) {
	p := open(t, views["wide"])
	p.visit("contended/lock?name=mail:digest")
	p.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("details summary").click()`)) // wherever it moves to
	p.run(chromedp.SendKeys("input[name=typed]", "mail:di"))
	p.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("h1").after(document.createElement("div"))`))
	p.run(chromedp.Sleep(2500 * time.Millisecond)) // two pictures
	check.Equal(t, value[string](p, `document.querySelector("input[name=typed]").value`), "mail:di", "the form has")
	p.run(chromedp.SendKeys("input[name=typed]", "gest"), chromedp.Click("button.danger"))
	p.run(chromedp.WaitReady("details:not([open])")) // on the next page; of a made-up lock it does not say that it was taken
	check.That(t, strings.Contains(value[string](p, `location.search`), "released=1"), "afterwards the page is %s", value[string](p, `location.href`))
	p.quiet()
}
