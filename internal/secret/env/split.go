package env

import (
	"fmt"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/secret"
)

// A Found is a variable of a file.
type Found struct {
	Name  string
	Value secret.Value
}

// Split takes the known variables with a value out of a file of NAME=value lines
// and returns the rest of it as it was. Quotes around a value are stripped. A
// value over several lines is an error that names the line: nothing is taken
// then.
func Split(data []byte, known []string) (found []Found, rest []byte, err error) {
	for i, line := range strings.SplitAfter(string(data), "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if !ok || !slices.Contains(known, name) {
			rest = append(rest, line...)
			continue
		}
		value = strings.TrimSpace(value)
		if q := value; q != "" && (q[0] == '"' || q[0] == '\'') {
			end := strings.LastIndexByte(q[1:], q[0])
			if end < 0 {
				return nil, nil, fmt.Errorf("line %d: the value of %s goes over several lines: store it with iris secret set", i+1, name)
			}
			value = q[1 : end+1]
		} else if at := strings.Index(value, " #"); at >= 0 {
			value = strings.TrimSpace(value[:at])
		}
		if value == "" {
			rest = append(rest, line...)
			continue
		}
		found = append(found, Found{name, secret.New(value)})
	}
	return found, rest, nil
}
