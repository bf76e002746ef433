package redlatchweb_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchweb"
)

// The dashboard under a prefix of a program's own server, behind a password.
func Example() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, "redis://localhost:6379", redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	dashboard, err := redlatchweb.New(client, redlatchweb.Options{Hosts: []string{"ops.example.com"}})
	if err != nil {
		log.Fatal(err)
	}
	defer dashboard.Close()
	users := map[string]string{"ops": "a long password"}
	http.Handle("/locks/", http.StripPrefix("/locks", redlatchweb.BasicAuth(users, dashboard)))
	log.Fatal(http.ListenAndServeTLS("127.0.0.1:8443", "cert.pem", "key.pem", nil))
}

// A handler that answers only requests with a user and a password.
func ExampleBasicAuth() {
	gallery := redlatchweb.Gallery()
	defer gallery.Close()
	server := httptest.NewServer(redlatchweb.BasicAuth(map[string]string{"ops": "a long password"}, gallery))
	defer server.Close()
	for _, password := range []string{"a guess", "a long password"} {
		request, err := http.NewRequest(http.MethodGet, server.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		request.SetBasicAuth("ops", password)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output:
	// 401 Unauthorized
	// 200 OK
}

// A finding of the program's own, beside the locks.
func ExampleFinding() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, "redis://localhost:6379", redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	dashboard, err := redlatchweb.New(client, redlatchweb.Options{
		Doctor: func(context.Context) ([]redlatchweb.Finding, error) {
			return []redlatchweb.Finding{{Check: "backup", Level: "warning", Found: "the last one is two days old"}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer dashboard.Close()
}

// The gallery shows every state of the dashboard and needs no Redis.
func ExampleGallery() {
	gallery := redlatchweb.Gallery()
	defer gallery.Close()
	server := httptest.NewServer(gallery)
	defer server.Close()
	resp, err := http.Get(server.URL + "/contended/lock?name=mail:digest")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(string(page), "believed dead"))
	// Output: true
}
