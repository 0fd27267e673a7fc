package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/iris-operator/iris/internal/dockerapi"
	"github.com/iris-operator/iris/internal/fleet/spawn/docker"
)

// ImageOptions say what the agents' image is built on and called.
type ImageOptions struct{ From, Tag string }

// authorities are where systems keep the bundle of certificate authorities.
var authorities = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// BuildImage makes the image that agents in containers run from, of the binary
// that runs now.
func BuildImage(ctx context.Context, opts Options, io ImageOptions) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	var certificates []byte
	for _, path := range authorities {
		if certificates, err = os.ReadFile(path); err == nil {
			break
		}
	}
	if certificates == nil {
		return errors.New("there is no bundle of certificate authorities here; install ca-certificates")
	}
	engine, err := dockerapi.New(dockerapi.Options{Host: lookup(opts.Environ, "DOCKER_HOST")})
	if err != nil {
		return err
	}
	defer engine.Close()
	if io.Tag == "" {
		io.Tag = docker.DefaultImage
	}
	if err := docker.BuildImage(ctx, engine, docker.Image{Tag: io.Tag, From: io.From, Binary: binary, Certificates: certificates}, opts.Out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(opts.Out, "made %s\n", io.Tag)
	return err
}
