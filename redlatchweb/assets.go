package redlatchweb

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed assets/*
var assetFiles embed.FS

// assetVersion is in the address of each asset, so that browsers may keep it for ever.
var assetVersion = func() string {
	sum := sha256.New()
	_ = fs.WalkDir(assetFiles, ".", func(path string, d fs.DirEntry, _ error) error {
		if !d.IsDir() {
			text, _ := assetFiles.ReadFile(path) // which is in the program
			sum.Write(text)
		}
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil))[:12]
}()

func serveAsset(w http.ResponseWriter, r *http.Request) {
	types := map[string]string{
		"app.js": "text/javascript; charset=utf-8", "theme.js": "text/javascript; charset=utf-8",
		"style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
	}
	name := strings.TrimPrefix(r.URL.Path, "/assets/")
	kind, ok := types[name]
	text, err := assetFiles.ReadFile("assets/" + name)
	if !ok || err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	if r.URL.Query().Get("v") == assetVersion {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(text)
}
