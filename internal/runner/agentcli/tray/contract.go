package tray

import _ "embed"

//go:embed contract.md
var contractText string
