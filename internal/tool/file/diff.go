package file

import (
	"fmt"
	"slices"
	"strings"
)

// around is how many unchanged lines a diff shows before and after a change.
const around = 4

// maxCells bounds the table of the line comparison; a larger change is shown
// as everything removed and everything added.
const maxCells = 1 << 20

// A change is a line of a diff: kept (' '), removed ('-') or added ('+'), with
// its number in the new or, if it was removed, in the old file.
type change struct {
	mark byte
	line string
	n    int
}

// diff compares two texts by lines and writes the changes with their numbers
// and some lines around them; "..." stands for lines left out.
func diff(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []change
	for i := max(0, head-around); i < head; i++ {
		all = append(all, change{' ', a[i], i + 1})
	}
	all = append(all, compare(a[head:len(a)-tail], b[head:len(b)-tail], head)...)
	for i := len(b) - tail; i < min(len(b), len(b)-tail+around); i++ {
		all = append(all, change{' ', b[i], i + 1})
	}
	show := near(all)
	width := len(fmt.Sprint(max(len(a), len(b))))
	var out strings.Builder
	gap := head > around
	for i, c := range all {
		if !show[i] {
			gap = true
			continue
		}
		if gap {
			fmt.Fprintf(&out, " %*s ...\n", width, "")
			gap = false
		}
		fmt.Fprintf(&out, "%c%*d %s\n", c.mark, width, c.n, c.line)
	}
	if gap || tail > around {
		fmt.Fprintf(&out, " %*s ...\n", width, "")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// near marks the lines that are changed or close to a change.
func near(all []change) []bool {
	show := make([]bool, len(all))
	for i, c := range all {
		if c.mark != ' ' {
			for j := max(0, i-around); j <= min(len(all)-1, i+around); j++ {
				show[j] = true
			}
		}
	}
	return show
}

// compare finds the longest common lines of a and b, which begin offset lines
// into their files.
func compare(a, b []string, offset int) []change {
	if len(a)*len(b) > maxCells {
		return slices.Concat(marked('-', a, offset), marked('+', b, offset))
	}
	// longest[i][j] is for a[i:] and b[j:].
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	var out []change
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, change{' ', b[j], offset + j + 1})
			i++
			j++
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			out = append(out, change{'-', a[i], offset + i + 1})
			i++
		default:
			out = append(out, change{'+', b[j], offset + j + 1})
			j++
		}
	}
	return out
}

func marked(mark byte, lines []string, offset int) (out []change) {
	for i, line := range lines {
		out = append(out, change{mark, line, offset + i + 1})
	}
	return out
}
