package policy

// iris judges Iris's own command line. On the host a command runs as the user
// whose token and key that command line finds by itself: through it a command
// would answer the question that it is held by, or print what get-secret keeps
// back.
func (s *shell) iris(args []string) {
	words := grammar{long: " config workspace api-host api-port recipient identity registry "}.split(args).operands
	if len(words) < 2 {
		return
	}
	var v Verdict
	switch words[0] + " " + words[1] {
	case "approvals answer":
		v = Verdict{Deny, rulePerson, s.span(), "only a person answers for a held command"}
	case "secret get", "secret export":
		v = Verdict{Deny, rulePerson, s.span(), "only a person reads the store of secrets; a command asks get-secret"}
	case "secret rm", "secret set", "secret import", "secret import-env":
		v = Verdict{Confirm, rulePerson, s.span(), "would change the store of secrets"}
	default:
		return
	}
	if rank(v.Decision) > rank(s.r.verdict.Decision) {
		s.r.raise(v)
	}
}
