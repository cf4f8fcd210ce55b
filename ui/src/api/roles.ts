// The permissions of docs/access.md. The server decides, and says in /auth/status what the session may do; the console only does not
// offer what would be refused.

export type Permission = 'enqueue' | 'work' | 'read-job' | 'read' | 'operate' | 'deploy' | 'administer' | 'administer-server';
