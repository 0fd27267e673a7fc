package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/iris-operator/iris/internal/secret"
)

// A Service is a place that the gateway may reach with a secret.
type Service struct {
	// Upstream is the address that paths are put below.
	Upstream string `json:"upstream"`
	// Secret is the name of the secret.
	Secret string `json:"secret"`
	// Headers are set on every request; {value} is the secret.
	Headers map[string]string `json:"headers"`
}

// bearer is the header most services want.
var bearer = map[string]string{"Authorization": "Bearer {value}"}

// Bundled returns the services everybody has. account is that of Azure Foundry,
// "" if there is none. Bedrock is not among them: its requests are signed, which
// a header cannot do.
func Bundled(account string) map[string]Service {
	all := map[string]Service{
		"resend":    {"https://api.resend.com", "RESEND-API-KEY", bearer},
		"github":    {"https://api.github.com", "GITHUB-TOKEN", bearer},
		"anthropic": {"https://api.anthropic.com", "ANTHROPIC-API-KEY", map[string]string{"X-Api-Key": "{value}"}},
		"openai":    {"https://api.openai.com", "OPENAI-API-KEY", bearer},
		"slack":     {"https://slack.com", "IRIS-SLACK-BOT-TOKEN", bearer},
		"deepseek":  {"https://api.deepseek.com", "DEEPSEEK-API-KEY", bearer},
		"mistral":   {"https://api.mistral.ai", "MISTRAL-API-KEY", bearer},
	}
	if account != "" {
		all["azure-foundry"] = Service{"https://" + account + ".cognitiveservices.azure.com", "AZURE-FOUNDRY-KEY", map[string]string{"Api-Key": "{value}"}}
	}
	return all
}

// serviceName is what a service may be called: one part of a path.
var serviceName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
})

// headerName is what a header may be called. Underscores, which some servers read
// as hyphens, are left out.
var headerName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
})

// Load reads the operator's services, {"name": {"upstream", "secret",
// "headers"}}, over the bundled ones: same name, other service. A missing file
// is none; a wrong one is refused, with its path.
func Load(path string, bundled map[string]Service) (map[string]Service, error) {
	all := maps.Clone(bundled)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	own, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	maps.Copy(all, own)
	return all, nil
}

// Parse reads the text of a services file.
func Parse(data []byte) (map[string]Service, error) {
	var own map[string]Service
	if err := json.Unmarshal(data, &own); err != nil {
		return nil, fmt.Errorf("it is not {\"name\": {\"upstream\", \"secret\", \"headers\"}}: %w", err)
	}
	for name, s := range own {
		if err := s.check(name); err != nil {
			return nil, err
		}
	}
	return own, nil
}

func (s Service) check(name string) error {
	u, err := url.Parse(s.Upstream)
	switch {
	case !serviceName().MatchString(name):
		return fmt.Errorf("service %.80q: a name has a-z, 0-9, - and _", name)
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("service %s: upstream is not an address such as https://api.example.org", name)
	case secret.CheckName(s.Secret) != nil:
		return fmt.Errorf("service %s: %w", name, secret.CheckName(s.Secret))
	}
	used := false
	for k, v := range s.Headers {
		if !headerName().MatchString(k) || strings.ContainsFunc(v, unicode.IsControl) {
			return fmt.Errorf("service %s: %.80q is no header", name, k)
		}
		used = used || strings.Contains(v, "{value}")
	}
	if !used {
		return fmt.Errorf("service %s: no header holds {value}", name)
	}
	return nil
}

// ServiceFor returns the name of a service that uses a secret, "" if there is
// none: what such a service uses is best kept proxy-only.
func ServiceFor(all map[string]Service, name string) string {
	best := ""
	for service, s := range all {
		if secret.Fold(s.Secret) == secret.Fold(name) && (best == "" || service < best) {
			best = service
		}
	}
	return best
}
