package picture

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"
)

// noise returns an image that hardly compresses.
func noise(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32())
	}
	for i := 3; i < len(img.Pix); i += 4 {
		img.Pix[i] = 255
	}
	return img
}

func encoded(t testing.TB, img image.Image, kind string) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch kind {
	case "png":
		err = png.Encode(&b, img)
	case "jpeg":
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: 95})
	case "gif":
		err = gif.Encode(&b, img, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reduce(t *testing.T, data []byte) (Picture, image.Config) {
	t.Helper()
	p, err := NewReducer(0).Reduce(t.Context(), data)
	if err != nil {
		t.Fatalf("Reduce: %v", err)
	}
	if Sniff(p.Data) != p.Mime {
		t.Errorf("a %s that says %s", Sniff(p.Data), p.Mime)
	}
	c, err := decodeConfig(p.Mime, p.Data)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func TestReduceSmallUntouched(t *testing.T) {
	for _, kind := range []string{"png", "jpeg", "gif"} {
		data := encoded(t, noise(30, 20), kind)
		if p, _ := reduce(t, data); !bytes.Equal(p.Data, data) || p.Note != "" || p.Mime != "image/"+kind {
			t.Errorf("%s: changed, %q, %s", kind, p.Note, p.Mime)
		}
	}
	exact := encoded(t, image.NewGray(image.Rect(0, 0, MaxEdge, 10)), "png")
	if p, _ := reduce(t, exact); !bytes.Equal(p.Data, exact) {
		t.Error("exactly at the edge limit: changed")
	}
}

func TestReduceLarge(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		w, h int // 0: only the limits count
	}{
		"too wide":      {encoded(t, image.NewGray(image.Rect(0, 0, 4000, 100)), "png"), 2000, 50},
		"too high":      {encoded(t, image.NewGray(image.Rect(0, 0, 30, 2001)), "jpeg"), 29, 2000},
		"a thin line":   {encoded(t, image.NewGray(image.Rect(0, 0, 5000, 1)), "gif"), 2000, 1},
		"too many byte": {encoded(t, noise(1500, 1000), "png"), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, got := reduce(t, c.data)
			if p.Encoded() > MaxEncoded || max(got.Width, got.Height) > MaxEdge || p.Note == "" {
				t.Errorf("%d × %d, %d bytes, %q", got.Width, got.Height, p.Encoded(), p.Note)
			}
			if c.w > 0 && (got.Width != c.w || got.Height != c.h) {
				t.Errorf("%d × %d, want %d × %d", got.Width, got.Height, c.w, c.h)
			}
		})
	}
}

func TestReduceAnimatedUntouched(t *testing.T) {
	var b bytes.Buffer
	frame := image.NewPaletted(image.Rect(0, 0, 2500, 10), color.Palette{color.Black, color.White})
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	if p, _ := reduce(t, b.Bytes()); !bytes.Equal(p.Data, b.Bytes()) || p.Note == "" {
		t.Errorf("changed, or no word of it: %q", p.Note)
	}
}

func TestReduceGarbage(t *testing.T) {
	big := encoded(t, image.NewGray(image.Rect(0, 0, 3000, 10)), "png")
	for name, data := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "only a signature": []byte("\x89PNG\r\n\x1a\n"), "cut off": big[:len(big)/2],
		"webp header": []byte("RIFF\x00\x00\x00\x00WEBP"), "a bomb": bomb(60000, 60000),
	} {
		if p, err := NewReducer(1).Reduce(t.Context(), data); !errors.Is(err, ErrUndecodable) || p.Data != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// bomb is a PNG that claims to be huge.
func bomb(w, h uint32) []byte {
	head := binary.BigEndian.AppendUint32([]byte("IHDR"), w)
	head = append(binary.BigEndian.AppendUint32(head, h), 8, 0, 0, 0, 0)
	data := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), 13)
	return binary.BigEndian.AppendUint32(append(data, head...), crc32.ChecksumIEEE(head))
}

func TestReduceAborts(t *testing.T) {
	data := encoded(t, image.NewGray(image.Rect(0, 0, 2500, 10)), "png")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewReducer(1).Reduce(ctx, data); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	// Somebody else holds the only slot: the wait ends with ctx.
	r := NewReducer(1)
	r.slots <- struct{}{}
	if _, err := r.Reduce(ctx, data); !errors.Is(err, context.Canceled) {
		t.Errorf("while waiting: %v", err)
	}
	if _, err := encode(ctx, noise(2, 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("while encoding: %v", err)
	}
}

func TestReduceWebP(t *testing.T) {
	// One lossless pixel, made by hand; there is no encoder.
	data, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	if p, c := reduce(t, data); p.Mime != "image/webp" || c.Width != 1 {
		t.Errorf("%s of %d pixels", p.Mime, c.Width)
	}
	if _, err := decode("image/webp", data); err != nil {
		t.Errorf("decode: %v", err)
	}
	if !animated("image/webp", []byte("RIFF....WEBPVP8XANIM")) || animated("image/webp", data) {
		t.Error("animation is not told from a picture")
	}
}

// exif puts an orientation into a JPEG.
func exif(data []byte, order binary.AppendByteOrder, value uint16) []byte {
	tiff := []byte("II*\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		tiff = []byte("MM\x00*")
	}
	tiff = order.AppendUint32(tiff, 8)
	tiff = order.AppendUint16(tiff, 2)
	tiff = append(tiff, make([]byte, 12)...) // another tag
	tiff = order.AppendUint16(tiff, 0x0112)
	tiff = order.AppendUint16(tiff, 3)
	tiff = order.AppendUint32(tiff, 1)
	tiff = append(order.AppendUint16(tiff, value), 0, 0)
	body := append([]byte("Exif\x00\x00"), tiff...)
	seg := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(body)+2))
	return bytes.Join([][]byte{data[:2], seg, body, data[2:]}, nil)
}

// TestReduceTurns checks where the dark corner of a picture ends up.
func TestReduceTurns(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 2400, 120))
	for y := range 120 {
		for x := range 2400 {
			if x >= 600 || y >= 30 {
				img.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	data := encoded(t, img, "jpeg")
	for value, want := range map[uint16]struct{ right, bottom, upright bool }{
		1: {false, false, false}, 2: {true, false, false}, 3: {true, true, false}, 4: {false, true, false},
		5: {false, false, true}, 6: {true, false, true}, 7: {true, true, true}, 8: {false, true, true}, 9: {false, false, false},
	} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			p, c := reduce(t, exif(data, order, value))
			if (c.Height > c.Width) != want.upright {
				t.Errorf("orientation %d: %d × %d", value, c.Width, c.Height)
			}
			got, err := decode(p.Mime, p.Data)
			if err != nil {
				t.Fatal(err)
			}
			x, y := c.Width/20, c.Height/20
			if want.right {
				x = c.Width - x
			}
			if want.bottom {
				y = c.Height - y
			}
			if r, _, _, _ := got.At(x, y).RGBA(); r > 1<<14 {
				t.Errorf("orientation %d: the dark corner is not at %d, %d", value, x, y)
			}
		}
	}
}

func FuzzOrientation(f *testing.F) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2)), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(exif(b.Bytes(), binary.LittleEndian, 6))
	f.Add(exif(b.Bytes(), binary.BigEndian, 8))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o := orientation(data); o < 1 || o > 8 {
			t.Errorf("orientation %d", o)
		}
	})
}
