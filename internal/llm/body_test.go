package llm

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// While a turn waits for its answer, nothing holds the bytes of its request, and
// net/http can have them again.
func TestARequestIsLetGoWhenItIsSent(t *testing.T) {
	want := strings.Repeat("x", 300<<10)
	got := make(chan string, 2)
	answer := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(data)) {
			t.Errorf("%d bytes of %d: %v", len(data), r.ContentLength, err)
		}
		got <- string(data)
		<-answer
	}))
	defer srv.Close()
	client := NewHTTPClient()
	defer client.CloseIdleConnections()
	made := 0
	r, err := Post(t.Context(), srv.URL, func() []byte { made++; return []byte(want) })
	if err != nil {
		t.Fatal(err)
	}
	sent := r.Body.(*body)
	done := make(chan error, 1)
	go func() {
		resp, err := client.Do(r)
		if err == nil {
			err = resp.Body.Close()
		}
		done <- err
	}()
	if data := <-got; data != want {
		t.Errorf("the server got %d bytes, want %d", len(data), len(want))
	}
	close(answer)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if sent.rest.Load() != nil {
		t.Error("the bytes of the request are still held")
	}
	if _, err := sent.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("Read after Close = %v", err)
	}
	again, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(again); string(data) != want || err != nil || made != 2 {
		t.Errorf("the second body has %d bytes, %v; encoded %d times", len(data), err, made)
	}
	if _, err := Post(t.Context(), "http://%zz", func() []byte { return nil }); err == nil {
		t.Error("Post takes any address")
	}
}
