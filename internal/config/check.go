package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// A Field is one setting, as documentation and checks see it.
type Field struct {
	Key     string // in the file, with its section
	Env     string
	Default string
	Help    string
	path    string // of the Go field
}

// Fields lists every setting in the order of the struct.
func Fields() []Field {
	var out []Field
	collect(reflect.TypeFor[Config](), "", "", &out)
	return out
}

func collect(t reflect.Type, prefix, path string, out *[]Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("toml")
		if f.Anonymous {
			collect(f.Type, prefix, path+f.Name+".", out)
			continue
		}
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			continue // a list of tables is documented by hand
		}
		if key == "" || key == "-" {
			continue
		}
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[secret.Value]() {
			collect(f.Type, prefix+key+".", path+f.Name+".", out)
			continue
		}
		*out = append(*out, Field{prefix + key, f.Tag.Get("env"), f.Tag.Get("default"), f.Tag.Get("help"), path + f.Name})
	}
}

func fileKeys() []string {
	var out []string
	for _, f := range Fields() {
		if table, _, ok := strings.Cut(f.Key, "."); ok && !slices.Contains(out, table) {
			out = append(out, table)
		}
		out = append(out, f.Key)
	}
	return append(append(out, "projects"), projectKeys()...)
}

// check refuses values that cannot be meant.
func (c *Config) check() error {
	if err := c.checkSandbox(); err != nil {
		return err
	}
	for name, port := range map[string]int{"IRIS_API_PORT": c.API.Port, "IRIS_WEBUI_PORT": c.Web.Port, "IRIS_BRIDGE_PORT": c.Bridge.Port, "IRIS_FIRECRACKER_PORT": c.Firecracker.Port} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("%s=%d is not a port (0 to 65535)", name, port)
		}
	}
	if c.Web.Port != 0 && c.Web.Port == c.API.Port && c.Web.Host == c.API.Host {
		return fmt.Errorf("IRIS_WEBUI_PORT=%d is the API's own port, which serves the page already; leave it unset", c.Web.Port)
	}
	if b := c.Bridge; b.Port != 0 && (b.Port == c.API.Port && b.Host == c.API.Host || b.Port == c.Web.Port && b.Host == c.Web.Host) {
		return fmt.Errorf("IRIS_BRIDGE_PORT=%d is taken by the API or the page; the bridge needs a port of its own", b.Port)
	}
	if _, err := c.Location(); err != nil {
		return fmt.Errorf("TZ=%q is not a time zone; use an IANA name such as Europe/Berlin", c.Timezone)
	}
	for name, v := range map[string]float64{"IRIS_COMPACT_THRESHOLD": c.Compact.Threshold, "IRIS_COMPACT_TARGET": c.Compact.Target} {
		if v <= 0 || v > 1 {
			return fmt.Errorf("%s=%v is not a fraction between 0 and 1", name, v)
		}
	}
	if c.Compact.Target >= c.Compact.Threshold {
		return fmt.Errorf("IRIS_COMPACT_TARGET=%v must be below IRIS_COMPACT_THRESHOLD=%v", c.Compact.Target, c.Compact.Threshold)
	}
	if err := c.checkProjects(); err != nil {
		return err
	}
	if err := oneOf("IRIS_LOG_LEVEL", c.Log.Level, "debug", "info", "warn", "error"); err != nil {
		return err
	}
	if err := oneOf("IRIS_LOG_FORMAT", c.Log.Format, "text", "json"); err != nil {
		return err
	}
	for _, f := range c.Model.Fallback {
		if p, m, ok := strings.Cut(f, "/"); !ok || p == "" || m == "" {
			return fmt.Errorf("IRIS_MODEL_FALLBACK: %q is not provider/model", f)
		}
	}
	if err := c.Telegram.check(); err != nil {
		return err
	}
	if err := c.checkSecrets(); err != nil {
		return err
	}
	return c.checkAmounts()
}

// checkAmounts refuses negative numbers where they mean nothing.
func (c *Config) checkAmounts() error {
	for name, v := range map[string]float64{
		"IRIS_SESSION_TIMEOUT_MS": float64(c.API.Timeout), "IRIS_LLM_TIMEOUT_SECS": float64(c.Model.Timeout),
		"IRIS_LLM_MAX_RETRIES": float64(c.Model.Retries), "IRIS_LLM_RETRY_BASE_MS": float64(c.Model.Base),
		"IRIS_THINKING_TOKENS": float64(c.Model.Thinking), "IRIS_INTERRUPTED_RUN_MAX_AGE_HOURS": float64(c.Turns.MaxAge),
		"IRIS_SHUTDOWN_GRACE_SECS": float64(c.Turns.Grace), "IRIS_BUDGET_TOKENS_PER_TURN": float64(c.Budget.Tokens),
		"IRIS_BUDGET_COST_PER_TURN": c.Budget.Cost, "IRIS_BUDGET_TOKENS_PER_DAY": float64(c.Budget.DayTokens),
		"IRIS_BUDGET_COST_PER_DAY": c.Budget.DayCost, "IRIS_JOURNAL_MAX_AGE_HOURS": float64(c.Journal.MaxAge), "IRIS_SCHEDULE_GRACE_SECS": float64(c.Schedule.Grace),
		"IRIS_JOURNAL_MAX_MIB": float64(c.Journal.MaxMiB), "IRIS_SANDBOX_PROCESSES": float64(c.Isolation.Processes),
		"IRIS_SANDBOX_MEMORY_MIB": float64(c.Isolation.MemoryMiB), "IRIS_SANDBOX_FILE_MIB": float64(c.Isolation.FileMiB),
		"IRIS_SANDBOX_TMP_MIB": float64(c.Isolation.TmpMiB), "IRIS_SANDBOX_DISK_MIB": float64(c.Isolation.DiskMiB),
		"IRIS_FIRECRACKER_VCPUS": float64(c.Firecracker.VCPUs), "IRIS_FIRECRACKER_MEMORY_MIB": float64(c.Firecracker.Memory),
		"IRIS_FIRECRACKER_BOOT_TIMEOUT_SECS": float64(c.Firecracker.Boot),
	} {
		if v < 0 {
			return fmt.Errorf("%s=%v is negative", name, v)
		}
	}
	return nil
}

func oneOf(name, v string, allowed ...string) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return fmt.Errorf("%s=%q is not one of %s", name, v, strings.Join(allowed, ", "))
}

// Location is the time zone people mean: the configured one, else the host's.
func (c *Config) Location() (*time.Location, error) {
	// TZ may also name a file, which the runtime has read already.
	if c.Timezone == "" || strings.HasPrefix(c.Timezone, ":") || strings.HasPrefix(c.Timezone, "/") {
		return time.Local, nil
	}
	return time.LoadLocation(c.Timezone)
}
