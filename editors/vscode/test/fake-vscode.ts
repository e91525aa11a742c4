// The few names of VS Code's API that the extension uses, and records of their use.

type Listener = (event: { affectsConfiguration(name: string): boolean }) => Promise<void>;

export const registered = new Map<string, () => Promise<void>>();
export const executed: unknown[][] = [];
export const errors: string[] = [];
export const values: Record<string, unknown> = {};
export const read = new Set<string>();
export const listeners: Listener[] = [];
const nothing = { dispose: () => {} };

export const commands = {
  registerCommand(name: string, work: () => Promise<void>) {
    registered.set(name, work);
    return nothing;
  },
  async executeCommand(...args: unknown[]) {
    executed.push(args);
  },
};

export const window = {
  activeTextEditor: {
    document: { uri: "file:///a.md" },
    selection: { active: { line: 1, character: 2 } },
  },
  async showErrorMessage(message: string, button: string) {
    errors.push(message);
    return button;
  },
};

export const workspace = {
  workspaceFolders: [{ uri: { fsPath: process.cwd() } }],
  getConfiguration: (section: string) => ({
    get(name: string) {
      read.add(`${section}.${name}`);
      return values[`${section}.${name}`];
    },
  }),
  onDidChangeConfiguration(listener: Listener) {
    listeners.push(listener);
    return nothing;
  },
};
