package telegram

import (
	"strings"

	"rsc.io/qr"
)

// qrText draws a QR code with half blocks, two rows to a line, in dark on light
// whatever the colours of the terminal are. Empty if the text is too long.
func qrText(text string) string {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return ""
	}
	const quiet = 2 // the white border that readers need
	var b strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		b.WriteString("\x1b[30;47m")
		for x := -quiet; x < code.Size+quiet; x++ {
			top, bottom := code.Black(x, y), y+1 < code.Size+quiet && code.Black(x, y+1)
			switch {
			case top && bottom:
				b.WriteString("█")
			case top:
				b.WriteString("▀")
			case bottom:
				b.WriteString("▄")
			default:
				b.WriteString(" ")
			}
		}
		b.WriteString("\x1b[0m\n")
	}
	return b.String()
}
