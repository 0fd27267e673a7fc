package rehearsal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A reply quotes at most this much of one result; people see the rest through
// the tool's own display.
const (
	maxLines = 80
	maxBytes = 6000
)

// report tells what tool calls gave, in the order they were made.
func report(rounds [][]exchange) string {
	var parts []string
	for _, round := range rounds {
		if s, ok := folderReport(round); ok {
			parts = append(parts, s)
			continue
		}
		for _, x := range round {
			parts = append(parts, one(x))
		}
	}
	return strings.Join(parts, "\n\n")
}

// arg returns a string argument of a call, empty if it has none.
func arg(x exchange, name string) string {
	var args map[string]any
	if json.Unmarshal(x.call.Args, &args) != nil {
		return ""
	}
	s, _ := args[name].(string)
	return s
}

// title names what was done.
func title(x exchange) string {
	switch x.call.Name {
	case "bash":
		return "`" + short(strings.ReplaceAll(arg(x, "command"), "`", "'"), 100) + "`"
	case "read", "write", "edit", "attach":
		return x.call.Name + " " + short(arg(x, "path"), 100)
	}
	return "`" + short(x.call.Name, 60) + "`"
}

func one(x exchange) string {
	text := strings.TrimSpace(x.result.Text)
	switch {
	case isHeld(x.result):
		return title(x) + " needs a yes from a person first:\n\n" + quote(told(text)) + "\n\nAnswer “yes” to let it run once, or “no” to leave it."
	case x.result.IsError && strings.Contains(strings.ToLower(text), "refused"):
		return title(x) + " was refused:\n\n" + quote(told(text))
	case x.result.IsError:
		return title(x) + " did not work:\n\n" + code(text)
	case x.call.Name == "attach":
		return "Done, the file is attached: " + short(arg(x, "path"), 100)
	case x.call.Name == "write" || x.call.Name == "edit":
		return "Done: " + short(text, 300)
	case x.call.Name == "read":
		return short(arg(x, "path"), 100) + ":\n\n" + code(text)
	case text == "" || text == "(no output)":
		return title(x) + " ran and printed nothing."
	}
	return title(x) + " says:\n\n" + code(text)
}

// code quotes output with a fence longer than any inside, cut to what a reply
// may hold.
func code(text string) string {
	text, more := cut(text)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	s := fence + "\n" + text + "\n" + fence
	if more > 0 {
		s += fmt.Sprintf("\n(and %d more lines)", more)
	}
	return s
}

func quote(text string) string {
	text, _ = cut(text)
	return "> " + strings.ReplaceAll(text, "\n", "\n> ")
}

// told is the part of a refusal that says what happened; what follows tells a
// model how to behave.
func told(text string) string {
	for _, advice := range []string{" It was not run.", " This command cannot be run.", " Ask the user"} {
		if before, _, ok := strings.Cut(text, advice); ok {
			text = before
		}
	}
	return text
}

// cut keeps whole lines from the start and returns how many it left out. A
// first line that is too long alone is cut itself.
func cut(text string) (kept string, more int) {
	lines := strings.Split(text, "\n")
	n, size := 0, 0
	for n < len(lines) && n < maxLines && size+len(lines[n]) < maxBytes {
		size += len(lines[n]) + 1
		n++
	}
	if n == 0 {
		return strings.ToValidUTF8(text[:min(len(text), maxBytes)], "") + "…", len(lines) - 1
	}
	return strings.Join(lines[:n], "\n"), len(lines) - n
}

var (
	lsLine = lazy(`^([-dlbcps])\S*\s+\d+\s+\S+\s+\S+\s+(\d+)\s+\S+\s+\S+\s+\S+\s(.+)$`)
	duLine = lazy(`^(\d[\d.,]*[KMGTP]?)\s+\S`)
)

// folderReport sums up a round of "ls -la" and "du -sh" in a sentence.
func folderReport(round []exchange) (string, bool) {
	var sentences, listings []string
	place := "This folder"
	for _, x := range round {
		command := arg(x, "command")
		if x.result.IsError || x.call.Name != "bash" {
			return "", false
		}
		if at, ok := strings.CutPrefix(command, "ls -la"); ok {
			if at = strings.TrimSpace(at); at != "" {
				place = "`" + at + "`"
			}
			s, ok := listing(place, x.result.Text)
			if !ok {
				return "", false
			}
			sentences, listings = append(sentences, s), append(listings, code(strings.TrimSpace(x.result.Text)))
			continue
		}
		m := duLine.FindStringSubmatch(strings.TrimSpace(x.result.Text))
		if !strings.HasPrefix(command, "du -sh ") || m == nil {
			return "", false
		}
		if len(round) == 1 {
			if at := strings.TrimPrefix(command, "du -sh "); at != "." {
				place = "`" + at + "`"
			}
			sentences = append(sentences, fmt.Sprintf("%s takes %s.", place, m[1]))
		} else {
			sentences = append(sentences, fmt.Sprintf("Everything together takes %s.", m[1]))
		}
	}
	if len(sentences) == 0 {
		return "", false
	}
	return strings.Join(append([]string{strings.Join(sentences, " ")}, listings...), "\n\n"), true
}

// listing counts the lines of "ls -la".
func listing(place, text string) (string, bool) {
	files, folders, others, seen := 0, 0, 0, 0
	largest, name := int64(-1), ""
	for _, line := range strings.Split(text, "\n") {
		m := lsLine.FindStringSubmatch(strings.TrimRight(line, "\r"))
		if m == nil {
			continue
		}
		seen++
		size, err := strconv.ParseInt(m[2], 10, 64)
		switch {
		case m[3] == "." || m[3] == "..":
		case m[1] == "d":
			folders++
		case m[1] == "-":
			files++
			if err == nil && size > largest {
				largest, name = size, m[3]
			}
		default:
			others++
		}
	}
	switch {
	case seen == 0:
		return "", false
	case files+folders+others == 0:
		return place + " is empty.", true
	}
	s := place + " has " + count(folders, "folder") + " and " + count(files, "file")
	if others > 0 {
		s += ", and " + count(others, "other entry")
	}
	if name != "" && files > 1 {
		s += fmt.Sprintf("; the largest is `%s` (%s)", name, human(largest))
	}
	return s + ".", true
}

func count(n int, what string) string {
	switch n {
	case 0:
		return "no " + strings.TrimSuffix(what, "entry") + plural(what)
	case 1:
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + strings.TrimSuffix(what, "entry") + plural(what)
}

// plural is the ending of a word, or of its last part.
func plural(what string) string {
	if strings.HasSuffix(what, "entry") {
		return "entries"
	}
	return "s"
}

func human(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	f, units := float64(n)/unit, "KMGTPE"
	for f >= unit && len(units) > 1 {
		f, units = f/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}
