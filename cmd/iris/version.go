package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints the version, the revision and the compiler.
func (versionCmd) Run() error {
	fmt.Printf("iris %s %s/%s %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	return nil
}

// version is the module's version from the build information: the tag of a
// release, else the revision.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v := "devel"
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v += "-" + s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				v += "+changes"
			}
		}
	}
	return v
}
