package observe

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A kind is what the figures of a family are.
type kind string

// The kinds of the text format that we have.
const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// A family is every figure of one name, told apart by the values of its labels.
type family struct {
	kind       kind
	name, help string
	labels     []string  // in alphabetical order, as they are shown
	buckets    []float64 // upper bounds of a histogram, rising

	// mu guards series and what is in it.
	mu     sync.Mutex
	series map[string]*series // by its labels, as they are shown
}

// A series is the figure of one set of label values.
type series struct {
	value  float64  // of a histogram the sum
	counts []uint64 // of a histogram: how many fell into each bucket, the last above all
}

// newFamily returns a family. Without labels its one figure is shown from the
// beginning, as 0.
func newFamily(k kind, name, help string, labels ...string) *family {
	f := &family{kind: k, name: name, help: help, labels: labels, series: map[string]*series{}}
	if len(labels) == 0 && k != histogram {
		f.series[""] = &series{}
	}
	return f
}

// at returns the series of label values, given in the order of labels. mu must
// be held.
func (f *family) at(values []string) *series {
	key := shown(f.labels, values)
	s := f.series[key]
	if s == nil {
		s = &series{}
		if f.kind == histogram {
			s.counts = make([]uint64, len(f.buckets)+1)
		}
		f.series[key] = s
	}
	return s
}

// add raises, or lowers, a counter or gauge.
func (f *family) add(d float64, values ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(values).value += d
}

// observe takes one measurement into a histogram.
func (f *family) observe(v float64, values ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(values)
	s.value += v
	i, _ := slices.BinarySearch(f.buckets, v)
	s.counts[i]++
}

// appendTo adds the family in the text format; one without figures is left out.
func (f *family) appendTo(b []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.series) == 0 {
		return b
	}
	b = append(b, "# HELP "+f.name+" "+escape(f.help, false)+"\n# TYPE "+f.name+" "+string(f.kind)+"\n"...)
	for _, labels := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[labels]
		if f.kind != histogram {
			b = appendFigure(b, f.name, labels, s.value)
			continue
		}
		var n uint64
		for i, c := range s.counts {
			n += c
			bound := math.Inf(1)
			if i < len(f.buckets) {
				bound = f.buckets[i]
			}
			le := `le="` + number(bound) + `"`
			if labels != "" {
				le = labels + "," + le
			}
			b = appendFigure(b, f.name+"_bucket", le, float64(n))
		}
		b = appendFigure(b, f.name+"_sum", labels, s.value)
		b = appendFigure(b, f.name+"_count", labels, float64(n))
	}
	return b
}

func appendFigure(b []byte, name, labels string, v float64) []byte {
	b = append(b, name...)
	if labels != "" {
		b = append(b, "{"+labels+"}"...)
	}
	return append(b, " "+number(v)+"\n"...)
}

// shown is labels with their values as the text format has them.
func shown(labels, values []string) string {
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	for i, l := range labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l + `="` + escape(values[i], true) + `"`)
	}
	return b.String()
}

func escape(s string, quoted bool) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsAny(s, "\\\n\"") {
		s = strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "\n", `\n`)
		if quoted {
			s = strings.ReplaceAll(s, `"`, `\"`)
		}
	}
	return s
}

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
