// Package builtin lists the surfaces that ship with the SDK. It declares none
// of its own.
package builtin

import (
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/availability"
	"github.com/iris-operator/iris/facilitate/surface/concerns"
	"github.com/iris-operator/iris/facilitate/surface/decisions"
	"github.com/iris-operator/iris/facilitate/surface/poll"
	"github.com/iris-operator/iris/facilitate/surface/tasks"
	"github.com/iris-operator/iris/facilitate/surface/terms"
)

// All returns fresh declarations of every surface, in the order of the manual.
func All() []*surface.Surface {
	return []*surface.Surface{decisions.New(), poll.New(), tasks.New(), availability.New(), concerns.New(), terms.New()}
}

// Named returns the surface of that name, or nil.
func Named(name string) *surface.Surface {
	for _, s := range All() {
		if s.Name == name {
			return s
		}
	}
	return nil
}
