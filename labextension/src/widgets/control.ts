// Sends a request of our own on the kernel's control channel, which answers while the kernel is busy. In front ends
// without that channel (VS Code, classic Notebook) there is only the comm.

interface Kernel {
  clientId?: string;
  username?: string;
  sendControlMessage?: (message: unknown, reply: boolean, disposable: boolean) => { done: Promise<unknown> };
}

/** Whether the page can send on the control channel of the kernel. */
export function hasControl(kernel: unknown): boolean {
  return typeof (kernel as Kernel | null | undefined)?.sendControlMessage === 'function';
}

/** Sends `jmars_request` to the kernel; false without a control channel. */
export function ask(kernel: unknown, content: Record<string, unknown>): boolean {
  if (!hasControl(kernel)) {
    return false;
  }
  const it = kernel as Required<Kernel>;
  const message = {
    channel: 'control',
    header: {
      msg_id: identifier(),
      msg_type: 'jmars_request',
      session: it.clientId || '',
      username: it.username || '',
      date: new Date().toISOString(),
      version: '5.4'
    },
    parent_header: {},
    metadata: {},
    content,
    buffers: []
  };
  try {
    it.sendControlMessage(message, true, true).done.catch(() => undefined); // the event that follows is the answer
    return true;
  } catch {
    return false;
  }
}

function identifier(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is missing on plain http
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}
