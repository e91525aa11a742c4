// A language client that only keeps what it was given.

export const clients: LanguageClient[] = [];

export class LanguageClient {
  state = "new";
  requests: unknown[] = [];

  constructor(
    readonly id: string,
    readonly name: string,
    readonly server: { command: string; args: string[]; options: unknown },
    readonly options: { documentSelector: unknown[]; initializationOptions: unknown },
  ) {
    clients.push(this);
  }

  async start() {
    this.state = "started";
  }

  async sendRequest(type: unknown, params: unknown) {
    this.requests.push([type, params]);
  }

  async dispose() {
    this.state = "disposed";
  }
}
