import { useSignal } from '@preact/signals';
import { ApiError } from '../api/client';
import { Command, ErrorPanel } from '../components/ui';
import { logIn } from '../state/session';
import { useTitle } from '../state/hooks';

export function LoginView() {
  useTitle('Log in');
  const error = useSignal<ApiError | null>(null);
  const busy = useSignal(false);
  const submit = async (form: HTMLFormElement) => {
    const token = new FormData(form).get('token')?.toString().trim() ?? '';
    if (token === '') return;
    busy.value = true;
    error.value = null;
    try {
      await logIn(token);
    } catch (fault) {
      error.value = fault instanceof ApiError ? fault : new ApiError(String(fault), 0, null);
    } finally {
      busy.value = false;
    }
  };
  return (
    <main class="login">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          void submit(event.currentTarget);
        }}
      >
        <h1>weir</h1>
        <p>
          Open the link that <code>weir up</code> or <code>weir head</code> printed when it started, or paste the
          head's token.
        </p>
        <label>
          Token
          <input name="token" type="password" autocomplete="off" autofocus required spellcheck={false} />
        </label>
        {error.value && <ErrorPanel error={error.value} />}
        <button type="submit" class="primary" disabled={busy.value}>
          Log in
        </button>
        <p class="faint">On the head's machine, this prints a link that opens the dashboard once:</p>
        <Command text="weir token link" />
        <p class="faint">And this the token:</p>
        <Command text="weir token show" />
      </form>
    </main>
  );
}
