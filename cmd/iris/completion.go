package main

import "fmt"

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// scripts make a shell ask the binary itself, which answers when COMP_LINE is
// set.
var scripts = map[string]string{
	"bash": "complete -C iris iris\n",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -C iris iris\n",
	"fish": `function __iris_complete
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct); and set COMP_LINE "$COMP_LINE "
    iris
end
complete -f -c iris -a "(__iris_complete)"
`,
}

// Run prints the script.
func (c *completionCmd) Run() error {
	fmt.Print(scripts[c.Shell])
	return nil
}
