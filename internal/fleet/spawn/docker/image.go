package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/iris-operator/iris/internal/dockerapi"
)

// An Image says what the agents' image is made of.
type Image struct {
	// Tag is its name. Empty: DefaultImage.
	Tag string
	// From is what it is built on. Empty: nothing at all, which is the smallest
	// and has no shell, so that an agent answers and cannot run commands.
	From string
	// Binary is the static iris.
	Binary []byte
	// Certificates is the bundle of certificate authorities, for HTTPS.
	Certificates []byte
}

// BuildImage makes the image with the engine, from what is in memory: nothing is
// fetched unless From says so. What the engine says goes to out.
func BuildImage(ctx context.Context, engine *dockerapi.Client, img Image, out io.Writer) error {
	if img.Tag == "" {
		img.Tag = DefaultImage
	}
	if img.From == "" {
		img.From = "scratch"
	}
	if strings.ContainsAny(img.From, " \t\r\n") || strings.ContainsAny(img.Tag, " \t\r\n") {
		return fmt.Errorf("%q and %q must be names of images", img.From, img.Tag)
	}
	context, err := img.tar()
	if err != nil {
		return err
	}
	q := url.Values{"t": {img.Tag}, "rm": {"1"}, "forcerm": {"1"}}
	body, err := engine.Stream(ctx, "POST", "/build?"+q.Encode(), "application/x-tar", context)
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var said struct{ Stream, Error string }
		err := dec.Decode(&said)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("docker: read the progress of the build: %w", err)
		}
		if said.Error != "" {
			return fmt.Errorf("docker: build: %s", strings.TrimSpace(said.Error))
		}
		if _, err := io.WriteString(out, said.Stream); err != nil {
			return err
		}
	}
}

// dockerfile is the recipe. deploy/Dockerfile is the same, built from source.
func (img Image) dockerfile() string {
	return "FROM " + img.From + "\n" +
		"COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt\n" +
		"COPY iris /usr/local/bin/iris\n" +
		"ENV PATH=/usr/local/bin:/usr/bin:/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\n" +
		"USER 65532:65532\n" +
		"WORKDIR /workspace\n" +
		"ENTRYPOINT [\"/usr/local/bin/iris\"]\n" +
		"CMD [\"serve\", \"/workspace\"]\n"
}

// tar is the context of the build.
func (img Image) tar() (*bytes.Buffer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{{"Dockerfile", 0o644, []byte(img.dockerfile())}, {"ca-certificates.crt", 0o644, img.Certificates}, {"iris", 0o755, img.Binary}} {
		if len(f.data) == 0 {
			return nil, fmt.Errorf("docker: the image needs %s, which is empty", f.name)
		}
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	return &b, w.Close()
}
