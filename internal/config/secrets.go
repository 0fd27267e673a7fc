package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/secret"
)

// Secrets says where secrets come from.
type Secrets struct {
	Mode        string       `toml:"mode" env:"IRIS_SECRETS_MODE" default:"store if there is a key file, else env" help:"env, store or proxy; see docs/secrets.md"`
	KeyFile     string       `toml:"key_file" env:"IRIS_SECRET_KEY_FILE" default:"/iris/secret.key, else ~/.config/iris/secret.key" help:"file with the key of the store: 64 hex digits"`
	StoreFile   string       `toml:"store_file" env:"IRIS_SECRET_STORE_FILE" default:"secrets.json.enc beside the key" help:"the encrypted store"`
	BrokerURL   string       `toml:"broker_url" env:"IRIS_SECRET_BROKER_URL" default:"none" help:"broker, or a parent Iris, that serves all secrets, whatever the mode"`
	BrokerToken secret.Value `toml:"broker_token" env:"IRIS_SECRET_BROKER_TOKEN" default:"none" help:"bearer token for the broker; of iris broker itself, too"`
}

// Broker is the daemon iris broker.
type Broker struct {
	Host           string `toml:"host" env:"IRIS_BROKER_HOST" default:"127.0.0.1" help:"address of iris broker"`
	Port           int    `toml:"port" env:"IRIS_BROKER_PORT" default:"9099" help:"port of iris broker"`
	ServicesFile   string `toml:"services_file" env:"IRIS_BROKER_SERVICES_FILE" default:"/iris/broker/services.json" help:"further services of the gateway"`
	FoundryAccount string `toml:"azure_foundry_account" env:"AZURE_FOUNDRY_ACCOUNT" default:"none" help:"account for the gateway's azure-foundry service"`
}

// The modes of secrets.
const (
	SecretsEnv   = "env"
	SecretsStore = "store"
	SecretsProxy = "proxy"
)

// installed is where a bootstrap installs Iris; its directory is used when it is
// there.
const installed = "/iris"

// fillSecrets finds the key and, from whether there is one, the mode.
func (c *Config) fillSecrets(src Source) {
	s := &c.Secrets
	dir := installed
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = filepath.Join(src.Home, ".config", "iris")
	}
	def(&s.KeyFile, filepath.Join(dir, "secret.key"))
	s.KeyFile = expand(s.KeyFile, src)
	def(&s.StoreFile, filepath.Join(filepath.Dir(s.KeyFile), "secrets.json.enc"))
	s.StoreFile = expand(s.StoreFile, src)
	if s.Mode == "" {
		s.Mode = SecretsEnv
		if _, err := os.Stat(s.KeyFile); !errors.Is(err, fs.ErrNotExist) {
			s.Mode = SecretsStore
		}
	}
	def(&c.Broker.Host, "127.0.0.1")
	def(&c.Broker.Port, 9099)
	def(&c.Broker.ServicesFile, filepath.Join(installed, "broker", "services.json"))
	c.Broker.ServicesFile = expand(c.Broker.ServicesFile, src)
}

// checkSecrets refuses what cannot be meant.
func (c *Config) checkSecrets() error {
	s := c.Secrets
	if err := oneOf("IRIS_SECRETS_MODE", s.Mode, SecretsEnv, SecretsStore, SecretsProxy); err != nil {
		return err
	}
	if s.Mode == SecretsProxy && s.BrokerURL == "" {
		return errors.New("IRIS_SECRETS_MODE=proxy needs IRIS_SECRET_BROKER_URL, the address of iris broker")
	}
	if s.BrokerURL != "" {
		u, err := url.Parse(s.BrokerURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return errors.New("IRIS_SECRET_BROKER_URL is not the address of a broker, such as http://127.0.0.1:9099")
		}
	}
	if c.Broker.Port < 1 || c.Broker.Port > 65535 {
		return fmt.Errorf("IRIS_BROKER_PORT=%d is not a port (1 to 65535)", c.Broker.Port)
	}
	if d := c.BaseDomain; d != "" && (strings.ContainsAny(d, "/:@ ") || !strings.Contains(d, ".")) {
		return fmt.Errorf("IRIS_BASE_DOMAIN=%q is not a domain, such as iris.example.org", d)
	}
	return nil
}
