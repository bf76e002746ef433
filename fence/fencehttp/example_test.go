package fencehttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fencehttp"
)

// service stands for a program that keeps invoices, and that alone writes them.
func service() *httptest.Server {
	var marks fence.Marks
	nameOf := func(r *http.Request) string { return "invoice:" + r.PathValue("id") }
	save := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "saved") }

	mux := http.NewServeMux()
	mux.Handle("PUT /invoices/{id}", fencehttp.Handler(&marks, nameOf, http.HandlerFunc(save)))
	return httptest.NewServer(mux)
}

// Two holders write, first the second and then the first, which was suspended in between.
func ExampleTransport() {
	s := service()
	defer s.Close()
	for _, held := range []lease{{"invoice:42", 1002}, {"invoice:42", 1001}} { // each a *redlatch.Lease
		client := http.Client{Transport: &fencehttp.Transport{Lease: held}}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, s.URL+"/invoices/42", strings.NewReader("paid"))
		if err != nil {
			log.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		defer response.Body.Close()
		fmt.Println(response.StatusCode, fencehttp.Refused(response))
	}
	// Output:
	// 200 <nil>
	// 409 redlatch: write refused for "invoice:42": token 1001 is stale, a later holder has been here with 1002; lock again and start over
}

// A guard that also counts what it refuses.
type counting struct {
	fencehttp.Guard
	refused int
}

func (c *counting) Do(ctx context.Context, name string, token int64, write func(context.Context) error) error {
	err := c.Guard.Do(ctx, name, token, write)
	if err != nil {
		c.refused++
	}
	return err
}

func ExampleGuard() {
	guard := &counting{Guard: new(fence.Marks)}
	name := func(*http.Request) string { return "a" }
	h := fencehttp.Handler(guard, name, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, token := range []string{"7", "6"} {
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header.Set(fencehttp.NameHeader, "a")
		r.Header.Set(fencehttp.TokenHeader, token)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	fmt.Println("refused:", guard.refused)
	// Output: refused: 1
}

// A handler that checks the token itself, in the transaction of its write.
func ExampleRead() {
	save := func(ctx context.Context, name string, token int64) error { // begins a transaction and calls Check of package fencesql
		return &fence.StaleError{Name: name, Token: token, Current: 1002}
	}
	h := func(w http.ResponseWriter, r *http.Request) {
		name, token, err := fencehttp.Read(r)
		if err == nil {
			err = save(r.Context(), name, token)
		}
		if err != nil {
			fencehttp.Refuse(w, err)
			return
		}
		fmt.Fprintln(w, "saved")
	}
	r := httptest.NewRequest(http.MethodPut, "/", nil)
	r.Header.Set(fencehttp.NameHeader, "a")
	r.Header.Set(fencehttp.TokenHeader, "1001")
	w := httptest.NewRecorder()
	h(w, r)
	fmt.Println(w.Code, w.Header().Get(fencehttp.CurrentHeader))
	// Output: 409 1002
}
