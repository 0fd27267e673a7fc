package terraform

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// module is a Terraform module as it is parsed.
type module struct {
	t      *testing.T
	blocks []*hclsyntax.Block
	files  map[string][]byte
}

func readModule(t *testing.T, name string) module {
	t.Helper()
	m := module{t: t, files: map[string][]byte{}}
	paths, err := filepath.Glob(filepath.Join(name, "*.tf"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("module %s: %v, %v", name, paths, err)
	}
	p := hclparse.NewParser()
	for _, path := range paths {
		f, diags := p.ParseHCLFile(path)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if m.files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		m.blocks = append(m.blocks, f.Body.(*hclsyntax.Body).Blocks...)
	}
	return m
}

// find returns the blocks of a kind with these labels.
func find(blocks []*hclsyntax.Block, kind string, labels ...string) (out []*hclsyntax.Block) {
	for _, b := range blocks {
		if b.Type == kind && (len(labels) == 0 || slices.Equal(b.Labels, labels)) {
			out = append(out, b)
		}
	}
	return out
}

// one is find when there is exactly one.
func (m module) one(kind string, labels ...string) *hclsyntax.Block {
	m.t.Helper()
	found := find(m.blocks, kind, labels...)
	if len(found) != 1 {
		m.t.Fatalf("%d blocks %s %q", len(found), kind, labels)
	}
	return found[0]
}

// source is an expression as it is written, on one line.
func (m module) source(e hclsyntax.Expression) string {
	r := e.Range()
	return strings.Join(strings.Fields(string(m.files[r.Filename][r.Start.Byte:r.End.Byte])), " ")
}

// is compares an attribute with what it should be, as it is written.
func (m module) is(b *hclsyntax.Block, name, want string) {
	m.t.Helper()
	a := b.Body.Attributes[name]
	if a == nil {
		m.t.Errorf("%s %q has no %s", b.Type, b.Labels, name)
		return
	}
	if got := m.source(a.Expr); got != want {
		m.t.Errorf("%s %q: %s = %s, want %s", b.Type, b.Labels, name, got, want)
	}
}

// fallback is the default of a variable.
func (m module) fallback(name, want string) {
	m.t.Helper()
	m.is(m.one("variable", name), "default", want)
}

// local is a value of locals, as it is written.
func (m module) local(name string) string {
	m.t.Helper()
	a := m.one("locals").Body.Attributes[name]
	if a == nil {
		m.t.Fatalf("there is no local.%s", name)
	}
	return m.source(a.Expr)
}

// holds evaluates a condition.
func holds(t *testing.T, b *hclsyntax.Block, vars map[string]cty.Value) bool {
	t.Helper()
	v, diags := b.Body.Attributes["condition"].Expr.Value(&hcl.EvalContext{Variables: vars, Functions: functions})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return v.True()
}

var functions = map[string]function.Function{"length": stdlib.LengthFunc, "contains": stdlib.ContainsFunc, "merge": stdlib.MergeFunc}

func object(kv map[string]cty.Value) cty.Value { return cty.ObjectVal(kv) }

func TestTerraformSharedImageIsBehindItsSwitch(t *testing.T) {
	m := readModule(t, "runtime-image")
	m.fallback("enable_docker_agents", "false")
	image, network := m.one("resource", "docker_image", "runtime"), m.one("resource", "docker_network", "internal")
	for _, b := range []*hclsyntax.Block{image, network} {
		m.is(b, "count", "var.enable_docker_agents ? 1 : 0")
	}
	m.is(image, "name", `"iris-runtime:local"`)
	m.is(network, "name", `"iris-internal"`)
	m.one("output", "image")
	m.one("output", "network")
}

func TestTerraformDockerAgent(t *testing.T) {
	m := readModule(t, "agent-docker")
	c := m.one("resource", "docker_container", "agent")
	m.is(c, "name", `"iris-${var.name}"`)
	m.is(c, "restart", `"unless-stopped"`)
	m.fallback("image", `"iris-runtime:local"`)
	m.fallback("network", `"iris-internal"`)
	m.fallback("secrets_mode", `"env"`)
	m.fallback("unique_api_token", "false")
	m.fallback("parent_api_url", `"http://172.18.0.1:3000"`)
	host := find(c.Body.Blocks, "host")
	if len(host) != 1 {
		t.Fatal("no host entry")
	}
	m.is(host[0], "host", `"iris-host"`)
	m.is(host[0], "ip", `"host-gateway"`)
	ports := find(c.Body.Blocks, "ports")
	if len(ports) != 2 {
		t.Fatalf("%d ports, want the bridge and the API", len(ports))
	}
	for _, p := range ports {
		m.is(p, "ip", `"127.0.0.1"`)
	}
	if got := m.local("api"); got != "var.bridge_port + 100" {
		t.Errorf("the API is at %s", got)
	}
	targets := map[string]string{}
	for _, v := range find(c.Body.Blocks, "volumes") {
		readOnly := "rw"
		if a := v.Body.Attributes["read_only"]; a != nil {
			readOnly = m.source(a.Expr)
		}
		targets[m.source(v.Body.Attributes["container_path"].Expr)] = readOnly
	}
	for _, d := range find(c.Body.Blocks, "dynamic", "volumes") {
		content := find(d.Body.Blocks, "content")[0]
		readOnly := "rw"
		if a := content.Body.Attributes["read_only"]; a != nil {
			readOnly = m.source(a.Expr)
		}
		targets[m.source(content.Body.Attributes["container_path"].Expr)] = readOnly
	}
	for path, want := range map[string]string{`"/workspace"`: "rw", `"/workspace/skills"`: "true", `"/workspace/models.json"`: "true", `"/events"`: "rw", `"/workspace/.azure"`: "rw"} {
		if targets[path] != want {
			t.Errorf("mount %s is %q, want %q", path, targets[path], want)
		}
	}
	m.is(m.one("resource", "random_password", "api_token"), "length", "32")
	m.is(m.one("resource", "random_password", "api_token"), "count", "var.unique_api_token ? 1 : 0")
	m.is(m.one("output", "api_token"), "value", "local.token")
	m.is(m.one("output", "api_token"), "sensitive", "true")
	for _, name := range []string{"container", "bridge_url", "secrets"} {
		m.one("output", name)
	}
}

// TestTerraformVariablesOfADockerAgent: the chat tokens are always there and win
// over whatever a file says; the file counts in the mode env alone.
func TestTerraformVariablesOfADockerAgent(t *testing.T) {
	m := readModule(t, "agent-docker")
	for _, name := range []string{"slack_app_token", "slack_bot_token", "telegram_bot_token"} {
		m.fallback(name, `""`)
		m.is(m.one("variable", name), "sensitive", "true")
	}
	chat := m.local("chat")
	for _, name := range []string{"IRIS_SLACK_APP_TOKEN", "IRIS_SLACK_BOT_TOKEN", "TELEGRAM_BOT_TOKEN"} {
		if !strings.Contains(chat, name+" =") {
			t.Errorf("%s is not set: %s", name, chat)
		}
	}
	plain := m.local("plain")
	for _, name := range []string{"IRIS_ENV", "AGENT_NAME", "IRIS_KEY_VAULT", "IRIS_API_URL", "IRIS_EVENTS_DIR", "IRIS_BRIDGE_PORT", "IRIS_BRIDGE_HOST"} {
		if !strings.Contains(plain, name+" =") {
			t.Errorf("%s is not set: %s", name, plain)
		}
	}
	for name, want := range map[string]string{
		"ours": "merge(local.plain, local.identity, local.broker, local.chat)", "env": "merge(local.from_file, local.ours)",
		"asks":   `contains(["store", "proxy"], var.secrets_mode)`,
		"broker": "local.asks ? { IRIS_SECRET_BROKER_URL = var.parent_api_url, IRIS_SECRET_BROKER_TOKEN = local.token } : {}",
	} {
		if got := m.local(name); got != want {
			t.Errorf("local.%s = %s, want %s", name, got, want)
		}
	}
	if got := m.local("file_lines"); !strings.HasPrefix(got, `var.secrets_mode == "env" && `) {
		t.Errorf("the file counts when %s", got)
	}
	// The last one wins: evaluated, with a file that brings a token.
	env := m.one("locals").Body.Attributes["env"].Expr
	v, diags := env.Value(&hcl.EvalContext{Functions: functions, Variables: map[string]cty.Value{"local": object(map[string]cty.Value{
		"from_file": cty.MapVal(map[string]cty.Value{"TELEGRAM_BOT_TOKEN": cty.StringVal("of the parent")}),
		"ours":      cty.MapVal(map[string]cty.Value{"TELEGRAM_BOT_TOKEN": cty.StringVal("")}),
	})}})
	if diags.HasErrors() || v.AsValueMap()["TELEGRAM_BOT_TOKEN"].AsString() != "" {
		t.Errorf("the parent's token gets through: %v, %v", v, diags)
	}
}

func TestTerraformPreconditions(t *testing.T) {
	m := readModule(t, "agent-docker")
	life := find(m.one("resource", "docker_container", "agent").Body.Blocks, "lifecycle")[0]
	pre := find(life.Body.Blocks, "precondition")
	if len(pre) != 2 {
		t.Fatalf("%d preconditions", len(pre))
	}
	for _, c := range []struct{ asks, unique, listed, want bool }{
		{false, false, false, true}, {true, false, true, false}, {true, true, false, false}, {true, true, true, true}, {false, true, false, true},
	} {
		list := cty.ListValEmpty(cty.String)
		if c.listed {
			list = cty.ListVal([]cty.Value{cty.StringVal("ANTHROPIC-API-KEY")})
		}
		vars := map[string]cty.Value{
			"local": object(map[string]cty.Value{"asks": cty.BoolVal(c.asks)}),
			"var":   object(map[string]cty.Value{"unique_api_token": cty.BoolVal(c.unique), "secrets": list}),
		}
		if got := holds(t, pre[0], vars) && holds(t, pre[1], vars); got != c.want {
			t.Errorf("%+v: the preconditions hold: %v", c, got)
		}
	}
	mode := find(m.one("variable", "secrets_mode").Body.Blocks, "validation")[0]
	for word, want := range map[string]bool{"env": true, "store": true, "proxy": true, "none": false} {
		if got := holds(t, mode, map[string]cty.Value{"var": object(map[string]cty.Value{"secrets_mode": cty.StringVal(word)})}); got != want {
			t.Errorf("secrets_mode %s: %v", word, got)
		}
	}
}

func TestTerraformMicroVM(t *testing.T) {
	m := readModule(t, "agent-microvm")
	if got := m.local("unit"); got != `"iris-fc-${var.name}"` {
		t.Errorf("the unit is %s", got)
	}
	m.fallback("jailer", "true")
	m.fallback("wait_seconds", "30")
	unit := m.local("service")
	for _, want := range []string{"ExecStartPre=/sbin/ip link set ${local.tap} up", "ExecStopPost=-/sbin/ip link del ${local.tap}", "Restart=on-failure", "RestartSec=5", "ExecStart=${local.start}"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit has no %s: %s", want, unit)
		}
	}
	if strings.Contains(unit, "EnvironmentFile") {
		t.Error("the unit names an environment file")
	}
	config := m.local("config")
	for _, want := range []string{"guestip=${local.guest}", "hostip=${local.host}"} {
		if !strings.Contains(config, want) {
			t.Errorf("the boot arguments have no %s", want)
		}
	}
	if got := m.local("start"); !strings.Contains(got, "/jailer --id ${local.unit}") || !strings.HasPrefix(got, "(var.jailer ?") {
		t.Errorf("the machine is started by %s", got)
	}
	rootfs := m.one("resource", "terraform_data", "rootfs")
	if copies := find(rootfs.Body.Blocks, "provisioner"); len(copies) != 1 || !strings.Contains(m.source(copies[0].Body.Attributes["command"].Expr), "cp --sparse=always") {
		t.Error("the root file system is not copied")
	}
	m.is(m.one("resource", "local_file", "config"), "filename", `"${local.dir}/vm-config.json"`)
	wait := m.source(find(m.one("resource", "terraform_data", "service").Body.Blocks, "provisioner")[0].Body.Attributes["command"].Expr)
	if !strings.Contains(wait, "/health") || !strings.Contains(wait, "-lt ${var.wait_seconds}") {
		t.Errorf("nothing waits for the agent: %s", wait)
	}
	m.is(m.one("output", "sandbox"), "value", `"firecracker:${local.guest}"`)
	m.one("output", "unit")
}
