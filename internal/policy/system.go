package policy

import "strings"

// system judges programs that change the machine and what it runs. It reports
// whether name is one.
func (s *shell) system(name string, args []string) bool {
	switch name {
	case "git":
		s.git(args)
	case "systemctl":
		s.systemctl(args)
	case "service", "rc-service", "invoke-rc.d", "initctl", "sv":
		s.service(args)
	case "terraform", "tofu", "opentofu", "terragrunt", "pulumi", "cdktf", "cdk":
		s.terraform(name, args)
	case "usermod", "useradd", "userdel", "adduser", "deluser", "chpasswd", "newusers", "vipw", "vigr", "visudo", "passwd", "groupmod", "groupdel", "chsh", "gpasswd":
		s.accounts(name, args)
	case "mke2fs", "mkdosfs", "mkntfs", "newfs", "mkfs":
		s.format(name, args)
	case "wipefs":
		l := grammar{short: "otp"}.split(args)
		if l.has("a", "all") || l.has("o", "offset") {
			s.writes(l.operands)
		}
	case "mkswap", "blkdiscard", "hdparm", "badblocks":
		l := grammar{short: "LpUvbcoe"}.split(args)
		if name != "badblocks" && name != "hdparm" || l.has("w") {
			s.writes(l.operands)
		}
	case "cryptsetup":
		if len(args) > 1 && (hasWord(args, "luksFormat") || hasWord(args, "erase")) {
			s.writes(args)
		}
	case "sgdisk", "parted":
		if hasWord(args, "-Z") || hasWord(args, "--zap-all") || hasWord(args, "mklabel") || hasWord(args, "mktable") {
			s.writes(args)
		}
	default:
		if strings.HasPrefix(name, "mkfs.") || strings.HasPrefix(name, "newfs_") {
			s.format(name, args)
			return true
		}
		return false
	}
	return true
}

func hasWord(args []string, word string) bool {
	for _, a := range args {
		if a == word {
			return true
		}
	}
	return false
}

func (s *shell) format(name string, args []string) {
	for i := len(args) - 1; i >= 0; i-- {
		if args[i] != "" && args[i][0] != '-' {
			s.note(effect{kind: format, path: show(args[i])})
			return
		}
	}
}

func (s *shell) systemctl(args []string) {
	l := grammar{short: "tpsHMnojP", long: " type property state host machine lines output signal kill-whom root job-mode when what "}.split(args)
	if len(l.operands) == 0 {
		return
	}
	verb := l.operands[0]
	if !oneOf(verb, "disable mask stop kill") {
		return
	}
	for _, unit := range l.operands[1:] {
		s.unit(verb, unit)
	}
}

// unit judges what is done to a unit; a glob may cover Iris.
func (s *shell) unit(verb, unit string) {
	if !known(unit) {
		return
	}
	pattern := activate(unit)
	if matches(pattern, "iris.service") || matches(pattern, "iris") {
		s.note(effect{kind: unitChange, path: verb + " the service of Iris itself"})
	}
}

func (s *shell) service(args []string) {
	l := grammar{}.split(args)
	if len(l.operands) < 2 {
		return
	}
	unit, verb := l.operands[0], l.operands[1]
	if oneOf(unit, "stop down") {
		unit, verb = verb, unit
	}
	if oneOf(verb, "stop down zap") {
		s.unit(verb, unit)
	}
}

func (s *shell) terraform(name string, args []string) {
	l := grammar{short: "s", long: " stack cwd terragrunt-working-dir working-dir var var-file target ", single: true}.split(args)
	for _, o := range l.options {
		if o.name == "var-file" {
			s.reads([]string{o.value})
		}
	}
	operands := l.operands
	for len(operands) > 0 && oneOf(operands[0], "run-all run stack") {
		operands = operands[1:]
	}
	if len(operands) == 0 || l.has("help", "h") {
		return
	}
	destroys := oneOf(operands[0], "destroy destroy-all")
	for _, o := range l.options {
		if o.name == "destroy" && o.value != "false" && oneOf(operands[0], "apply apply-all") {
			destroys = true
		}
	}
	if destroys {
		s.note(effect{kind: teardown, path: name + " destroy"})
	}
}

// accounts judges programs that change /etc/passwd, /etc/sudoers and the like.
func (s *shell) accounts(name string, args []string) {
	l := grammar{}.split(args)
	switch {
	case l.has("help", "version"), name == "visudo" && l.has("c", "check"), name == "passwd" && l.has("S", "status"),
		name == "useradd" && l.has("D", "defaults") && len(l.operands) == 0:
		return
	}
	s.note(effect{kind: accountChange, path: name})
}
