package transport

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestAnErrorOfNoKindTellsNothing(t *testing.T) {
	e := AsSendError(io.ErrUnexpectedEOF)
	if e.Fault != Unreachable || !e.Maybe || !errors.Is(e, io.ErrUnexpectedEOF) {
		t.Errorf("AsSendError = %+v, want Unreachable, Maybe and the cause", e)
	}
	known := &SendError{Fault: Gone, Err: errors.New("channel_not_found")}
	if got := AsSendError(fmt.Errorf("post: %w", known)); got != known {
		t.Errorf("AsSendError = %+v, want the one inside", got)
	}
	if got := known.Error(); got != "gone: channel_not_found" {
		t.Errorf("Error() = %q", got)
	}
}
