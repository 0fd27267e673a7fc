package config

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/iris-operator/iris/internal/secret"
)

// Telegram is the bot through which Iris is on Telegram.
type Telegram struct {
	Token   secret.Value `toml:"bot_token" env:"TELEGRAM_BOT_TOKEN" default:"the secret TELEGRAM-BOT-TOKEN, else off" help:"token of the bot, as @BotFather gives it; switches Telegram on"`
	API     string       `toml:"api_url" env:"IRIS_TELEGRAM_API_URL" default:"https://api.telegram.org" help:"Bot API server"`
	Members []string     `toml:"members" env:"IRIS_TELEGRAM_MEMBERS" default:"who claimed the bot" help:"numeric ids of further people who are served, and may approve, in a group that claimed the bot"`
	Reclaim bool         `toml:"force_reclaim" env:"IRIS_TELEGRAM_FORCE_RECLAIM" default:"false" help:"true forgets at the start who claimed the bot; take it away again afterwards"`
	MaxAge  Hours        `toml:"max_age_hours" env:"IRIS_TELEGRAM_MAX_AGE_HOURS" default:"24" help:"age in hours up to which a message that waited while Iris was away is acted on; older ones are answered with a line"`
	// Download bounds the files of one message.
	Download Millis `toml:"download_timeout_ms" env:"IRIS_TELEGRAM_DOWNLOAD_TIMEOUT_MS" default:"30000" help:"milliseconds that the download of a message's files may take before the message goes on without them"`
}

// MemberIDs are the Members as numbers.
func (t Telegram) MemberIDs() ([]int64, error) {
	var out []int64
	for _, m := range t.Members {
		id, err := strconv.ParseInt(m, 10, 64)
		if err != nil || id <= 0 {
			return nil, fmt.Errorf("IRIS_TELEGRAM_MEMBERS: %q is no id of a person, which is a number; @userinfobot tells yours", m)
		}
		out = append(out, id)
	}
	return out, nil
}

func (t *Telegram) fill() {
	def(&t.API, "https://api.telegram.org")
	def(&t.MaxAge, 24)
	def(&t.Download, 30_000)
}

func (t Telegram) check() error {
	if u, err := url.Parse(t.API); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("IRIS_TELEGRAM_API_URL=%q is not the address of a server", t.API)
	}
	if t.MaxAge < 0 || t.Download < 0 {
		return fmt.Errorf("IRIS_TELEGRAM_MAX_AGE_HOURS=%v and IRIS_TELEGRAM_DOWNLOAD_TIMEOUT_MS=%v may not be negative", t.MaxAge, t.Download)
	}
	_, err := t.MemberIDs()
	return err
}
