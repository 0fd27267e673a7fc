package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/iris-operator/iris/internal/secret"
)

// An exported secret, in a file that age encrypts as a whole.
type exported struct {
	Name          string        `json:"name"`
	Value         string        `json:"value"`
	Origin        secret.Origin `json:"source"`
	ProxyOnly     bool          `json:"proxyOnly"`
	AgentReadable bool          `json:"agentReadable"`
}

type archive struct {
	Version int        `json:"version"`
	Secrets []exported `json:"secrets"`
}

// ExportSecrets writes all secrets, encrypted with age for the recipients or, if
// there are none, under a passphrase that is asked for. It takes no key of the
// store to read them back.
func ExportSecrets(ctx context.Context, o SecretOptions, recipients []string) error {
	if err := personal(o.Options, "export the store"); err != nil {
		return err
	}
	src, done, err := o.place()
	if err != nil {
		return err
	}
	defer done()
	all, err := src.List(ctx)
	if err != nil {
		return err
	}
	a := archive{Version: 1}
	for _, m := range all {
		v, m, err := src.Get(ctx, m.Name)
		if err != nil {
			return fmt.Errorf("export %s: %w", m.Name, err)
		}
		a.Secrets = append(a.Secrets, exported{m.Name, v.Reveal(), m.Origin, m.ProxyOnly, m.AgentReadable})
	}
	to, err := o.recipients(ctx, recipients)
	if err != nil {
		return err
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to...)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err = o.Out.Write(out.Bytes())
	return err
}

func (o SecretOptions) recipients(ctx context.Context, names []string) ([]age.Recipient, error) {
	if len(names) > 0 {
		return age.ParseRecipients(strings.NewReader(strings.Join(names, "\n")))
	}
	pass, err := o.ask(ctx, "Passphrase for the export: ")
	if err != nil {
		return nil, err
	}
	if len(pass.Reveal()) < 12 {
		return nil, errors.New("a passphrase needs at least 12 characters; or name a recipient")
	}
	r, err := age.NewScryptRecipient(pass.Reveal())
	if err != nil {
		return nil, err
	}
	if o.Work != 0 {
		r.SetWorkFactor(o.Work)
	}
	return []age.Recipient{r}, nil
}

// maxArchive bounds an export that is read back.
const maxArchive = 256 << 20

// ImportSecrets stores what an export holds. identity is a file of age keys, ""
// asks for the passphrase.
func ImportSecrets(ctx context.Context, o SecretOptions, file, identity string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	ids, err := o.identities(ctx, identity)
	if err != nil {
		return err
	}
	r, err := age.Decrypt(f, ids...)
	if err != nil {
		return fmt.Errorf("%s does not open: %w", file, err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxArchive))
	if err != nil {
		return fmt.Errorf("%s is damaged: %w", file, err)
	}
	var a archive
	if json.Unmarshal(data, &a) != nil || a.Version != 1 {
		return fmt.Errorf("%s is no export of secrets of this version", file)
	}
	src, done, err := o.place()
	if err != nil {
		return err
	}
	defer done()
	for _, e := range a.Secrets {
		if _, err := src.Put(ctx, e.Name, secret.New(e.Value), secret.Put{Origin: e.Origin, ProxyOnly: &e.ProxyOnly, AgentReadable: &e.AgentReadable}); err != nil {
			return fmt.Errorf("import %.130q: %w", e.Name, err)
		}
	}
	_, err = fmt.Fprintf(o.Out, "Imported %d secrets\n", len(a.Secrets))
	return err
}

func (o SecretOptions) identities(ctx context.Context, file string) ([]age.Identity, error) {
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return age.ParseIdentities(f)
	}
	pass, err := o.ask(ctx, "Passphrase of the export: ")
	if err != nil {
		return nil, err
	}
	id, err := age.NewScryptIdentity(pass.Reveal())
	if err != nil {
		return nil, err
	}
	return []age.Identity{id}, nil
}
