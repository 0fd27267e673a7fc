package web

import (
	"embed"
	"io/fs"
)

//go:embed page
var page embed.FS

// Page returns the files of the page, index.html at its root.
func Page() fs.FS {
	sub, err := fs.Sub(page, "page")
	if err != nil {
		// The directory is part of the binary; fs.Sub only checks its name.
		panic(err)
	}
	return sub
}
