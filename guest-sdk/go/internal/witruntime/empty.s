// It lets sbrk be declared without a body.
