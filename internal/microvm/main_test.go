package microvm_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/microvm"
	"github.com/iris-operator/iris/internal/microvm/microvmtest"
)

func TestMain(m *testing.M) {
	microvmtest.Main()
	for name, run := range microvm.Programs {
		if v := os.Getenv(name); v != "" {
			run(v)
		}
	}
	goleak.VerifyTestMain(m)
}
