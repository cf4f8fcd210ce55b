// Plugins: the list of all of them, and the page of one.
import { List } from './list';
import { One } from './one';

export default function Plugins({ name }: { name?: string }) {
    return name ? <One name={name} /> : <List />;
}
