// Package config reads the plain configuration of a process: flags over
// environment over file. It owns names, defaults and bounds; it opens nothing
// but the configuration file and .env, and only cmd and app import it.
//
// Every setting has one name in iris.config.toml and one environment variable;
// docs/configuration.md lists them and is checked against the struct below.
package config

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// Config is the whole configuration. The tags are its documentation: toml and
// env are the names, default the value when neither is set, help what it does.
type Config struct {
	Workspace string `toml:"workspace" env:"IRIS_WORKSPACE" default:"~/.iris" help:"directory in which everything durable lives"`
	Sandbox   string `toml:"sandbox" env:"IRIS_SANDBOX" default:"host" help:"where commands run: host, bwrap, docker:<name>, firecracker:<ip> or firecracker-pool"`
	Env       string `toml:"environment" env:"IRIS_ENV" default:"prod" help:"label in logs: prod or preview"`
	Timezone  string `toml:"timezone" env:"TZ" default:"the host's" help:"IANA name of the time zone people mean"`
	// OperatorChannel is where Iris speaks without being asked.
	OperatorChannel string `toml:"operator_channel" env:"IRIS_STATUS_CHANNEL" default:"the log" help:"channel id for notices to the operator"`

	// Approvers may answer questions about held commands.
	Approvers []string `toml:"approvers" env:"IRIS_APPROVERS" default:"whoever may talk to Iris there" help:"ids of the people who may approve held commands; web is the page, api the operator's token"`

	// BaseDomain is where people reach the page from outside.
	BaseDomain string `toml:"base_domain" env:"IRIS_BASE_DOMAIN" default:"none" help:"public domain of the page, for links that Iris gives to people"`

	AgentPrograms `toml:"-"`
	// Projects are the directories in which agent programs work.
	Projects []Project `toml:"projects"`

	API         API         `toml:"api"`
	Web         Web         `toml:"web"`
	Model       Model       `toml:"model"`
	Compact     Compact     `toml:"compact"`
	Budget      Budget      `toml:"budget"`
	Turns       Turns       `toml:"turns"`
	Bash        Bash        `toml:"bash"`
	Policy      Policy      `toml:"policy"`
	Isolation   Isolation   `toml:"isolation"`
	Firecracker Firecracker `toml:"firecracker"`
	Log         Log         `toml:"log"`
	Journal     Journal     `toml:"journal"`
	Delivery    Delivery    `toml:"delivery"`
	Telegram    Telegram    `toml:"telegram"`
	Schedule    Schedule    `toml:"schedule"`
	Agents      Agents      `toml:"agents"`
	Mail        Mail        `toml:"mail"`
	Bridge      Bridge      `toml:"bridge"`
	Secrets     Secrets     `toml:"secrets"`
	Broker      Broker      `toml:"broker"`
	Slack       Slack       `toml:"slack"`

	// File is the configuration file that was read, empty if none.
	File string `toml:"-"`
	// environ holds what Lookup may serve.
	environ map[string]string
}

// API is the one listener.
type API struct {
	Host  string       `toml:"host" env:"IRIS_API_HOST" default:"127.0.0.1" help:"address the API and the page listen on"`
	Port  int          `toml:"port" env:"IRIS_API_PORT" default:"3000" help:"port of the API and the page"`
	Token secret.Value `toml:"token" env:"IRIS_API_TOKEN" default:"made at first start" help:"the operator's bearer token; when unset it is kept in ~/.config/iris/token"`
	// Timeout bounds the wait of one message call, not the turn.
	Timeout Millis `toml:"session_timeout_ms" env:"IRIS_SESSION_TIMEOUT_MS" default:"600000" help:"longest wait of POST /sessions/:id/message, in milliseconds; the turn goes on after it"`
}

// Web is the page.
type Web struct {
	Host         string       `toml:"host" env:"IRIS_WEBUI_HOST" default:"127.0.0.1" help:"address of the page's own listener"`
	Port         int          `toml:"port" env:"IRIS_WEBUI_PORT" default:"off" help:"port of a second listener with the page's routes alone"`
	Password     secret.Value `toml:"password" env:"IRIS_WEBUI_PASSWORD" default:"none" help:"password of the page; without one only the one-time link logs in"`
	AllowedHosts []string     `toml:"allowed_hosts" env:"IRIS_ALLOWED_HOSTS" default:"none" help:"host names under which a proxy serves the page"`
}

// Model says who thinks, and for how long.
type Model struct {
	Provider string   `toml:"provider" env:"IRIS_PROVIDER" default:"found (see docs)" help:"name of a provider: built in, or from models.json"`
	Name     string   `toml:"name" env:"IRIS_MODEL" default:"the provider's first" help:"model id"`
	Fallback []string `toml:"fallback" env:"IRIS_MODEL_FALLBACK" default:"none" help:"provider/model pairs that are tried in this order when the model fails, each once"`
	Thinking int64    `toml:"thinking_tokens" env:"IRIS_THINKING_TOKENS" default:"0" help:"reasoning budget per answer in tokens, where the model has it; 0 is off"`
	// Timeout is silence between content events.
	Timeout Seconds `toml:"timeout_secs" env:"IRIS_LLM_TIMEOUT_SECS" default:"90" help:"longest silence of the model in seconds; time of tools does not count"`
	Retries int     `toml:"max_retries" env:"IRIS_LLM_MAX_RETRIES" default:"3" help:"attempts per model call, the first included"`
	Base    Millis  `toml:"retry_base_ms" env:"IRIS_LLM_RETRY_BASE_MS" default:"500" help:"pause before the second attempt in milliseconds; later ones wait about twice that"`
}

// Compact says when a history is shortened.
type Compact struct {
	Threshold float64 `toml:"threshold" env:"IRIS_COMPACT_THRESHOLD" default:"0.7" help:"fill of the model's window at which the history is summarised"`
	Target    float64 `toml:"target" env:"IRIS_COMPACT_TARGET" default:"0.1" help:"fill to aim for"`
}

// Budget stops turns that cost too much; 0 is no limit.
type Budget struct {
	Calls     int     `toml:"calls_per_turn" env:"IRIS_BUDGET_CALLS_PER_TURN" default:"100" help:"model calls in one turn; -1 is no limit"`
	Tokens    int64   `toml:"tokens_per_turn" env:"IRIS_BUDGET_TOKENS_PER_TURN" default:"none" help:"tokens in one turn"`
	Cost      float64 `toml:"cost_per_turn" env:"IRIS_BUDGET_COST_PER_TURN" default:"none" help:"US dollars in one turn"`
	DayTokens int64   `toml:"tokens_per_day" env:"IRIS_BUDGET_TOKENS_PER_DAY" default:"none" help:"tokens in one day"`
	DayCost   float64 `toml:"cost_per_day" env:"IRIS_BUDGET_COST_PER_DAY" default:"none" help:"US dollars in one day"`
}

// Turns says how turns wait and end.
type Turns struct {
	MaxAge       Hours   `toml:"interrupted_max_age_hours" env:"IRIS_INTERRUPTED_RUN_MAX_AGE_HOURS" default:"4" help:"age in hours up to which a turn cut off by a restart is taken up again"`
	Grace        Seconds `toml:"shutdown_grace_secs" env:"IRIS_SHUTDOWN_GRACE_SECS" default:"10" help:"seconds that running turns get to finish when the process is told to end"`
	Attachments  Millis  `toml:"attachment_wait_ms" env:"IRIS_ATTACHMENT_DOWNLOAD_TIMEOUT_MS" default:"10000" help:"milliseconds that a turn waits for the files of its own message to arrive"`
	VerboseTools bool    `toml:"verbose_tools" env:"IRIS_VERBOSE_TOOLS" default:"false" help:"show tool output in chats"`
}

// Bash is the policy of commands.
type Bash struct {
	Policy    string   `toml:"policy" env:"IRIS_BASH_POLICY" default:"on" help:"off lets every command pass; it is still recorded"`
	AuditFile string   `toml:"audit_file" env:"IRIS_BASH_AUDIT_FILE" default:"<workspace>/meta/bash-audit.log" help:"record of every command"`
	PassEnv   []string `toml:"pass_env" env:"IRIS_BASH_PASS_ENV" default:"none" help:"further environment variables that commands may see"`
}

// Log is what the process writes to standard error.
type Log struct {
	Level  string `toml:"level" env:"IRIS_LOG_LEVEL" default:"info" help:"debug, info, warn or error"`
	Format string `toml:"format" env:"IRIS_LOG_FORMAT" default:"text" help:"text or json"`
}

// Journal bounds what is kept for watchers that come back late.
type Journal struct {
	MaxAge Hours `toml:"max_age_hours" env:"IRIS_JOURNAL_MAX_AGE_HOURS" default:"168" help:"hours that the events of ended turns are kept"`
	MaxMiB int64 `toml:"max_mib" env:"IRIS_JOURNAL_MAX_MIB" default:"1024" help:"MiB that the journal may take"`
}

// Delivery says how chats are written to.
type Delivery struct {
	StatusEvery Seconds `toml:"status_secs" env:"IRIS_STATUS_SECS" default:"3" help:"least seconds between two edits of a progress line"`
	MaxAge      Hours   `toml:"max_age_hours" env:"IRIS_DELIVERY_MAX_AGE_HOURS" default:"24" help:"hours for which a message is tried when its platform cannot be reached; then the operator is told"`
	Keep        Hours   `toml:"keep_hours" env:"IRIS_OUTBOX_KEEP_HOURS" default:"168" help:"hours that receipts of delivered messages are kept"`
}

// Slack is the way to a workspace of Slack; it is on when both tokens are there.
type Slack struct {
	AppToken secret.Value `toml:"app_token" env:"IRIS_SLACK_APP_TOKEN" default:"none" help:"app-level token (xapp-), which opens the connection"`
	BotToken secret.Value `toml:"bot_token" env:"IRIS_SLACK_BOT_TOKEN" default:"none" help:"bot token (xoxb-), with which everything else is done"`
	Channels []string     `toml:"channels" env:"IRIS_SLACK_CHANNEL" default:"all she is in" help:"ids of the only channels that are listened to"`
	MaxChars int          `toml:"max_chars" env:"IRIS_SLACK_MAX_CHARS" default:"4000" help:"longest message in characters, counted after escaping; Slack lets no longer one be edited, so more is 4000"`
	API      string       `toml:"api_url" env:"IRIS_SLACK_API_URL" default:"https://slack.com/api/" help:"base of the Web API, for a proxy"`
}

// Agents says where sub-agents are kept.
type Agents struct {
	Registry string `toml:"registry" env:"IRIS_AGENTS_REGISTRY" default:"<workspace>/agents.json" help:"file in which the sub-agents are registered"`
	// Dir is beside a workspace called data, so that /iris/data has /iris/agents.
	Dir  string `toml:"dir" env:"IRIS_AGENTS_DIR" default:"<workspace>/agents; beside it if it is called data" help:"directory in which new sub-agents live"`
	Repo string `toml:"repo" env:"IRIS_REPO_DIR" default:"none" help:"git repository that gets a directory agents/<name> for each new sub-agent"`
	// Parent and Events make a process a sub-agent that escalates.
	Parent string `toml:"parent" env:"IRIS_API_URL" default:"none" help:"API of the Iris this one works for; escalations go there"`
	Events string `toml:"parent_events" env:"IRIS_EVENTS_DIR" default:"none" help:"directory in which escalations are left when the parent does not answer"`
}

// Mail is how iris self-heal --email reaches a person.
type Mail struct {
	Server   string       `toml:"server" env:"IRIS_SMTP_SERVER" default:"none" help:"mail server, host:port, for iris self-heal --email; port 465 speaks TLS from the start, others STARTTLS where the server offers it"`
	User     string       `toml:"user" env:"IRIS_SMTP_USER" default:"none" help:"who logs in at the mail server; never without TLS, except on this machine"`
	Password secret.Value `toml:"password" env:"IRIS_SMTP_PASSWORD" default:"none" help:"password at the mail server"`
	From     string       `toml:"from" env:"IRIS_EMAIL_FROM" default:"none" help:"address that mail comes from"`
	To       string       `toml:"to" env:"IRIS_EMAIL_TO" default:"none" help:"address that iris self-heal --email writes to"`
}

// Bridge is the door for other Irises, and the way to the agents of this one.
type Bridge struct {
	Host  string       `toml:"host" env:"IRIS_BRIDGE_HOST" default:"127.0.0.1" help:"address the bridge listens on"`
	Port  int          `toml:"port" env:"IRIS_BRIDGE_PORT" default:"off" help:"port of the bridge, for an Iris that is a sub-agent of another"`
	Token secret.Value `toml:"token" env:"IRIS_BRIDGE_TOKEN" default:"none" help:"bearer token that callers of the bridge must show, and that is shown to agents without a token of their own"`
	Idle  Limit        `toml:"idle_timeout_ms" env:"IRIS_BRIDGE_IDLE_TIMEOUT_MS" default:"180000" help:"milliseconds without progress after which a bridge request fails; heartbeats are no progress; 0 is no limit"`
	Max   Limit        `toml:"max_ms" env:"IRIS_BRIDGE_MAX_MS" default:"600000" help:"milliseconds that a bridge request may take in all; 0 is no limit"`

	Heartbeat Limit `toml:"heartbeat_ms" env:"IRIS_BRIDGE_HEARTBEAT_MS" default:"15000" help:"milliseconds between two heartbeats of a stream; 0 is none"`
	Plain     Limit `toml:"legacy_timeout_ms" env:"IRIS_BRIDGE_LEGACY_TIMEOUT_MS" default:"240000" help:"further limit, in milliseconds, of requests that wait for one JSON answer; 0 is none"`
	Throttle  Limit `toml:"status_throttle_ms" env:"IRIS_BRIDGE_STATUS_THROTTLE_MS" default:"3000" help:"least milliseconds between two lines of an agent's progress that are shown; 0 shows all"`
	Retention Limit `toml:"job_retention_ms" env:"IRIS_BRIDGE_JOB_RETENTION_MS" default:"86400000" help:"milliseconds that job logs are kept; 0 keeps them"`
	Poll      Limit `toml:"job_poll_ms" env:"IRIS_BRIDGE_JOB_POLL_MS" default:"2000" help:"milliseconds between two questions for a job whose connection was lost"`
}

// A Limit is a time in milliseconds of the bridge. Its rules are those of the
// wire: 0 switches it off, and what is negative or no number is the default.
type Limit int64

// Duration converts to a time.Duration.
func (l Limit) Duration() time.Duration { return time.Duration(l) * time.Millisecond }

// UnmarshalText leaves the limit as it is when text is no whole number from 0.
func (l *Limit) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n >= 0 && n <= int64(math.MaxInt64/time.Millisecond) {
		*l = Limit(n)
	}
	return nil
}

// bridgeDefaults is what holds where nothing is set.
func bridgeDefaults() Bridge {
	return Bridge{Idle: 180_000, Max: 600_000, Heartbeat: 15_000, Plain: 240_000, Throttle: 3_000, Retention: 86_400_000, Poll: 2_000}
}

// Schedule says how what is planned runs.
type Schedule struct {
	Quiet string  `toml:"quiet_hours" env:"IRIS_QUIET_HOURS" default:"none" help:"hours in which periodic schedules wait for their end, such as 22:00-07:00"`
	Grace Seconds `toml:"grace_secs" env:"IRIS_SCHEDULE_GRACE_SECS" default:"600" help:"seconds that something planned may run late, after a restart, without counting as missed"`
}

// Millis, Seconds and Hours are durations given as plain numbers of their unit.
type (
	Millis  int64
	Seconds float64
	Hours   float64
)

// Duration converts to a time.Duration.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Duration converts to a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Duration converts to a time.Duration.
func (h Hours) Duration() time.Duration { return time.Duration(float64(h) * float64(time.Hour)) }

// Lookup serves the variables that hold keys and addresses of providers
// (*_API_KEY, *_KEY, *_BASE_URL and what models.json names with $NAME), from the
// environment first and .env second.
func (c *Config) Lookup(name string) (secret.Value, bool) {
	v, ok := c.environ[name]
	if !ok || v == "" {
		return secret.Value{}, false
	}
	return secret.New(v), true
}
