package facilitate

import (
	"context"

	"github.com/iris-operator/iris/facilitate/audit"
)

// A Report is what an audit of the whole journal found.
type Report struct {
	Provenance audit.Provenance
	Bits       []float64 // bound of each choice, in order
	Total      float64   // their sum: more than this the room cannot have learned
	Influence  []audit.Influence
	Equity     audit.Equity
}

// Audit reads the journal and reports, for the operator.
func (a *Agent) Audit(ctx context.Context, key *OperatorKey) (Report, error) {
	if err := a.admit(ForSelf(key)); err != nil {
		return Report{}, err
	}
	entries, err := a.entries(ctx)
	if err != nil {
		return Report{}, err
	}
	s := a.snapshot()
	r := Report{Provenance: audit.Provenances(entries), Bits: audit.Bits(entries), Influence: audit.Influences(entries), Equity: audit.Equities(&s.Public)}
	for _, b := range r.Bits {
		r.Total += b
	}
	return r, nil
}
