package picture

import (
	"encoding/binary"
	"image"
)

// orientation returns the EXIF orientation of a JPEG, 1 to 8; 1 means upright
// and is returned for whatever cannot be read.
func orientation(data []byte) int {
	for at := 2; at+4 <= len(data) && data[at] == 0xff; {
		marker, size := data[at+1], int(binary.BigEndian.Uint16(data[at+2:]))
		if marker == 0xda || size < 2 || at+2+size > len(data) {
			return 1 // the pixels begin, or the file is broken
		}
		if body := data[at+4 : at+2+size]; marker == 0xe1 && len(body) > 6 && string(body[:6]) == "Exif\x00\x00" {
			return tiffOrientation(body[6:])
		}
		at += 2 + size
	}
	return 1
}

// tiffOrientation looks for tag 0x0112 in the first directory.
func tiffOrientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if string(tiff[:2]) == "MM" {
		order = binary.BigEndian
	}
	dir := int64(order.Uint32(tiff[4:]))
	if dir+2 > int64(len(tiff)) {
		return 1
	}
	entries := tiff[dir+2:]
	for range order.Uint16(tiff[dir:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == 0x0112 {
			if v := int(order.Uint16(entries[8:])); 1 <= v && v <= 8 {
				return v
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// turned returns the image as a viewer shows it. The orientation says where the
// first row and the first column of the file belong.
func turned(img *image.NRGBA, orientation int) *image.NRGBA {
	if orientation < 2 || orientation > 8 {
		return img
	}
	w, h := img.Rect.Dx(), img.Rect.Dy()
	tw, th := w, h
	if orientation >= 5 {
		tw, th = h, w
	}
	out := image.NewNRGBA(image.Rect(0, 0, tw, th))
	for y := range h {
		for x := range w {
			var tx, ty int
			switch orientation {
			case 2:
				tx, ty = w-1-x, y
			case 3:
				tx, ty = w-1-x, h-1-y
			case 4:
				tx, ty = x, h-1-y
			case 5:
				tx, ty = y, x
			case 6:
				tx, ty = h-1-y, x
			case 7:
				tx, ty = h-1-y, w-1-x
			case 8:
				tx, ty = y, w-1-x
			}
			copy(out.Pix[out.PixOffset(tx, ty):][:4], img.Pix[img.PixOffset(x, y):][:4])
		}
	}
	return out
}
