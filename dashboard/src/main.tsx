import { render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './styles/base.css';
import './styles/parts.css';
import './styles/pages.css';
import './styles/traffic.css';
import './styles/compare.css';
import './styles/narrow.css';
import { App } from './app';
import { startKeys } from './keys';
import { startRouter } from './router';
import { startLive } from './state/session';

startRouter();
startKeys();
startLive();
const place = document.getElementById('app');
if (place !== null) render(<App />, place);
