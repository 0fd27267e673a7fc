package surface

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxWords bounds a sealed free text; longer ones are refused.
const maxWords = 2000

// ErrValue is what a contribution outside the declared shape is.
var ErrValue = errors.New("not a valid contribution")

// Check validates raw against the contribution of s. lists holds the present
// labels of each list field. Unknown keys are dropped; anything else outside
// the shape is [ErrValue], and so is nothing at all.
func (s *Surface) Check(raw map[string]any, lists map[string][]string) (Value, error) {
	v := Value{}
	for _, c := range s.Contribution {
		x, ok := raw[c.Name]
		if !ok || x == nil {
			if c.Optional {
				continue
			}
			return nil, fmt.Errorf("%s is missing: %w", c.Name, ErrValue)
		}
		y, err := c.check(x, lists[c.Ref])
		if err != nil {
			return nil, err
		}
		v[c.Name] = y
	}
	if len(v) == 0 {
		return nil, fmt.Errorf("empty: %w", ErrValue)
	}
	return v, nil
}

func (c Slot) check(x any, labels []string) (any, error) {
	bad := fmt.Errorf("%s: %w", c.Name, ErrValue)
	switch c.Kind {
	case Word, Option:
		of := c.Of
		if c.Kind == Option {
			of = labels
		}
		s, ok := x.(string)
		if i := slices.IndexFunc(of, func(o string) bool { return strings.EqualFold(o, strings.TrimSpace(s)) }); ok && i >= 0 {
			return of[i], nil
		}
		return nil, bad
	case Set:
		out := []string{}
		list, ok := x.([]any)
		if ss, isStrings := x.([]string); isStrings {
			for _, s := range ss {
				list = append(list, s)
			}
			ok = true
		}
		if !ok {
			return nil, bad
		}
		for _, e := range list {
			s, _ := e.(string)
			i := slices.IndexFunc(labels, func(o string) bool { return strings.EqualFold(o, strings.TrimSpace(s)) })
			if i < 0 {
				return nil, bad
			}
			if !slices.Contains(out, labels[i]) {
				out = append(out, labels[i])
			}
		}
		slices.Sort(out)
		return out, nil
	case Number:
		f, ok := x.(float64)
		if n, isInt := x.(int); isInt {
			f, ok = float64(n), true
		}
		if n, isNum := x.(json.Number); isNum {
			var err error
			f, err = n.Float64()
			ok = err == nil
		}
		if !ok || f != math.Trunc(f) || f < float64(c.Min) || f > float64(c.Max) {
			return nil, bad
		}
		return int(f), nil
	case Text:
		s, ok := x.(string)
		if !ok || len(s) > maxWords {
			return nil, bad
		}
		return s, nil
	case Flag:
		b, ok := x.(bool)
		if !ok {
			return nil, bad
		}
		return b, nil
	}
	return nil, bad
}

// Tally adds up the keys of values. It never panics: a function of the surface
// that does counts nothing for that value.
func (s *Surface) Tally(values []Value) (tally map[string]int, vetoed map[string]bool, support int) {
	tally, vetoed = map[string]int{}, map[string]bool{}
	for _, v := range values {
		if s.Count != nil {
			for _, k := range total(func() []string { return s.Count(v) }) {
				tally[k]++
			}
		}
		if s.Veto != nil {
			for _, k := range total(func() []string { return s.Veto(v) }) {
				vetoed[k] = true
			}
		}
		if s.Supports != nil && total(func() bool { return s.Supports(v) }) {
			support++
		}
	}
	return tally, vetoed, support
}

func total[T any](f func() T) (out T) {
	defer func() {
		if recover() != nil {
			var zero T
			out = zero
		}
	}()
	return f()
}
