package memory

func rpush(s *store, args []string) (any, error) {
	all, err := made(s, args[0], func() *list { return &list{} })
	if err != nil {
		return nil, err
	}
	all.items = append(all.items, args[1:]...)
	return int64(len(all.items)), nil
}
