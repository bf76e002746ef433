package redlatch

import "context"

// Inspect returns the holders of a name and its waiters, as one consistent picture. A name that is
// not in use has neither. It changes nothing. The error matches [ErrUnreachable] or [ErrInvalid].
func (c *Client) Inspect(ctx context.Context, name string) (LockInfo, error) {
	info, _, err := c.survey.look(ctx, name)
	return info, err
}
