package memory

import "fmt"

func newHash() *hash { return &hash{values: make(map[string]string)} }

func hget(s *store, args []string) (any, error) {
	all, err := hmget(s, args[:2])
	if err != nil {
		return nil, err
	}
	return all.([]any)[0], nil
}

func hmget(s *store, args []string) (any, error) {
	h, found, err := valueOf[*hash](s, args[0])
	if err != nil {
		return nil, err
	}
	all := make([]any, len(args)-1)
	for i := 0; found && i < len(all); i++ {
		if value, has := h.values[args[i+1]]; has {
			all[i] = value
		}
	}
	return all, nil
}

func hset(s *store, args []string) (any, error) {
	if len(args)%2 == 0 {
		return nil, fmt.Errorf("%w for 'hset' command", errArguments)
	}
	h, err := made(s, args[0], newHash)
	if err != nil {
		return nil, err
	}
	var n int64
	for i := 1; i < len(args); i += 2 {
		n += truth(h.set(args[i], args[i+1]))
	}
	return n, nil
}

func hexists(s *store, args []string) (any, error) {
	v, err := hget(s, args)
	return truth(v != nil), err
}

// hashList returns a command that replies with what each returns for the fields of a hash.
func hashList(each func(field, value string) []any) func(s *store, args []string) (any, error) {
	return func(s *store, args []string) (any, error) {
		all := []any{}
		h, found, err := valueOf[*hash](s, args[0])
		if err != nil || !found {
			return all, err
		}
		for _, field := range h.fields {
			all = append(all, each(field, h.values[field])...)
		}
		return all, nil
	}
}
