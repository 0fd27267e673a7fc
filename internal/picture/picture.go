// Package picture makes images small enough for a model: at most 2000 pixels on
// the longer edge and 4.5 MiB as base64. It owns decoding, turning, scaling and
// encoding; what is sent where is up to its callers. PNG, JPEG, GIF and WebP
// are known.
package picture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"
)

// The limits of a picture for a model.
const (
	MaxEdge    = 2000
	MaxEncoded = 4<<20 + 1<<19 // of the base64 text
)

// maxPixels is the largest image that is decoded: 50 million take 200 MB, and
// a file of a few kilobytes can claim more than there is memory.
const maxPixels = 50 << 20

// rounds is how often a picture is made smaller before it is taken as it is.
const rounds = 8

// ErrUndecodable says that the data is no picture of a known kind, or a broken
// one, or one with too many pixels. The original can still be sent.
var ErrUndecodable = errors.New("image cannot be decoded")

// A Picture is an encoded image.
type Picture struct {
	Mime string
	Data []byte
	// Note is a sentence about what was done to it or could not be, empty if
	// it is the original within the limits.
	Note string
}

// Encoded is the length of the picture as base64.
func (p Picture) Encoded() int { return (len(p.Data) + 2) / 3 * 4 }

// A Reducer makes pictures smaller, a few at a time: a camera's picture needs
// 250 MB while it is scaled.
type Reducer struct{ slots chan struct{} }

// NewReducer returns a Reducer that works on up to n pictures at once; n < 1
// means 2.
func NewReducer(n int) *Reducer {
	if n < 1 {
		n = 2
	}
	return &Reducer{make(chan struct{}, n)}
}

// Sniff returns the MIME type of a picture by its first bytes, "" if it is none
// of the known kinds.
func Sniff(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "image/gif"
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// Reduce returns the picture within the limits: as it is if it keeps to them or
// is an animation, and scaled, turned upright and encoded anew otherwise. The
// error wraps ErrUndecodable, or is that of ctx.
func (r *Reducer) Reduce(ctx context.Context, data []byte) (Picture, error) {
	kind := Sniff(data)
	p := Picture{Mime: kind, Data: data}
	config, err := decodeConfig(kind, data)
	if err != nil {
		return Picture{}, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	if max(config.Width, config.Height) <= MaxEdge && p.Encoded() <= MaxEncoded {
		return p, nil
	}
	if animated(kind, data) {
		p.Note = "The image is an animation and was left as it is, though it is larger than a model may take."
		return p, nil
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxPixels/config.Height {
		return Picture{}, fmt.Errorf("%w: %d × %d pixels", ErrUndecodable, config.Width, config.Height)
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return Picture{}, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return Picture{}, err
	}
	img, err := decode(kind, data)
	if err != nil {
		return Picture{}, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	turn := 1
	if kind == "image/jpeg" {
		turn = orientation(data)
	}
	return shrink(ctx, img, turn)
}

// shrink scales until the encoding fits.
func shrink(ctx context.Context, img image.Image, turn int) (Picture, error) {
	from := img.Bounds()
	w, h := fit(from.Dx(), from.Dy())
	var best Picture
	for range rounds {
		if err := ctx.Err(); err != nil {
			return Picture{}, err
		}
		scaled := image.NewNRGBA(image.Rect(0, 0, w, h))
		draw.BiLinear.Scale(scaled, scaled.Bounds(), img, from, draw.Src, nil)
		upright := turned(scaled, turn)
		var err error
		if best, err = encode(ctx, upright); err != nil {
			return Picture{}, err
		}
		best.Note = fmt.Sprintf("The image was scaled from %d × %d to %d × %d pixels.", from.Dx(), from.Dy(), w, h)
		if best.Encoded() <= MaxEncoded || w <= 16 && h <= 16 {
			break
		}
		w, h = max(w*7/10, 16), max(h*7/10, 16)
	}
	return best, nil
}

// fit scales a size down to MaxEdge.
func fit(w, h int) (int, int) {
	edge := max(w, h)
	if edge <= MaxEdge {
		return w, h
	}
	return max(w*MaxEdge/edge, 1), max(h*MaxEdge/edge, 1)
}

// encode returns the smallest of a PNG and three JPEGs.
func encode(ctx context.Context, img *image.NRGBA) (Picture, error) {
	var best Picture
	try := func(mime string, enc func(*bytes.Buffer) error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var b bytes.Buffer
		if err := enc(&b); err != nil {
			return err
		}
		if best.Data == nil || b.Len() < len(best.Data) {
			best = Picture{Mime: mime, Data: b.Bytes()}
		}
		return nil
	}
	if err := try("image/png", func(b *bytes.Buffer) error { return png.Encode(b, img) }); err != nil {
		return Picture{}, err
	}
	// JPEG has no transparency: black text on nothing would become black on
	// black.
	flat := image.NewRGBA(img.Bounds())
	draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), img, image.Point{}, draw.Over)
	for _, q := range []int{80, 60, 40} {
		err := try("image/jpeg", func(b *bytes.Buffer) error { return jpeg.Encode(b, flat, &jpeg.Options{Quality: q}) })
		if err != nil {
			return Picture{}, err
		}
	}
	return best, nil
}

var errKind = errors.New("not a PNG, JPEG, GIF or WebP file")

func decodeConfig(kind string, data []byte) (image.Config, error) {
	r := bytes.NewReader(data)
	switch kind {
	case "image/png":
		return png.DecodeConfig(r)
	case "image/jpeg":
		return jpeg.DecodeConfig(r)
	case "image/gif":
		return gif.DecodeConfig(r)
	case "image/webp":
		return webp.DecodeConfig(r)
	}
	return image.Config{}, errKind
}

func decode(kind string, data []byte) (image.Image, error) {
	r := bytes.NewReader(data)
	switch kind {
	case "image/png":
		return png.Decode(r)
	case "image/jpeg":
		return jpeg.Decode(r)
	case "image/gif":
		return gif.Decode(r)
	case "image/webp":
		return webp.Decode(r)
	}
	return nil, errKind
}

// animated reports whether a GIF or WebP moves.
func animated(kind string, data []byte) bool {
	return kind == "image/gif" && bytes.Contains(data, []byte("NETSCAPE2.0")) ||
		kind == "image/webp" && bytes.Contains(data, []byte("ANIM"))
}
