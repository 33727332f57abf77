import { useEffect, useRef } from 'preact/hooks';
import { Banners } from './components/banners';
import { Help } from './components/help';
import { Header } from './components/header';
import { LaterPage } from './components/later';
import { Empty } from './components/ui';
import { match, route } from './router';
import { Part } from './state/part';
import { readVersion, session } from './state/session';
import { ActorsView } from './views/actors';
import { JobView } from './views/job';
import { JobsView } from './views/jobs';
import { LoginView } from './views/login';
import { NodesView } from './views/nodes';
import { OverviewView } from './views/overview';

// Few come to these pages, of which one has charts and the other the whole form: they are fetched when first looked at.
const compare = new Part(() => import('./views/compare'));
const submit = new Part(() => import('./views/submit'));

export function App() {
  useEffect(() => {
    readVersion().catch(() => {}); // a 401 closes the session; any other failure shows on the page itself
  }, []);
  const place = session.value === 'closed' ? 'login' : route.value.path;
  const last = useRef(place);
  useEffect(() => {
    // What had the focus may be gone with the page before: the keyboard then goes on here, not above the header.
    if (last.current !== place && document.activeElement === document.body) {
      document.querySelector<HTMLElement>('.login input, #main')?.focus({ preventScroll: true });
    }
    last.current = place;
  }, [place]);
  if (session.value === 'closed') return <LoginView />;
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Header />
      <Banners />
      <main id="main" tabIndex={-1}>
        {view(route.value.path)}
      </main>
      <Help />
    </>
  );
}

function view(path: string) {
  if (path === '/') return <OverviewView />;
  if (path === '/jobs') return <JobsView />;
  if (path === '/compare') {
    return (
      <LaterPage title="Compare jobs" part={compare}>
        {({ CompareView }) => <CompareView />}
      </LaterPage>
    );
  }
  if (path === '/nodes') return <NodesView />;
  if (path === '/actors') return <ActorsView />;
  if (path === '/submit') {
    return (
      <LaterPage title="Submit a job" part={submit}>
        {({ SubmitView }) => <SubmitView />}
      </LaterPage>
    );
  }
  const job = match('/jobs/:id', path);
  if (job?.['id'] !== undefined) return <JobView key={job['id']} id={job['id']} />;
  return (
    <Empty title="There is no such page">
      <a href="/">Back to the overview</a>
    </Empty>
  );
}
