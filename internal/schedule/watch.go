package schedule

import (
	"context"
	"errors"

	"github.com/fsnotify/fsnotify"
)

// watch asks the file system to tell of changes.
func watch(ctx context.Context, dirs []string) (<-chan struct{}, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, w.Add(dir))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	changed := make(chan struct{}, 1)
	go func() {
		defer close(changed)
		defer w.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-w.Events:
				if !ok {
					return
				}
			case _, ok := <-w.Errors:
				if !ok {
					return
				}
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed, nil
}
