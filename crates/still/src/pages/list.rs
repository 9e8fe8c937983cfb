//! Which pools there are, and who has what of them.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::pages::ordinary::{self, Ordinary};
use crate::table::{Align, Table, sanitize};
use crate::units::format_bytes;
use serde_json::json;
use stillframe_pages::holders::{Holder, holders};
use stillframe_pages::pool::Size;
use stillframe_pages::supply::{Supply, System};
use stillframe_pages::{Page, Pool};

/// A pool, and all that is said of it.
struct Found {
    pool: Pool,
    size: Size,
    holders: Vec<Holder>,
}

pub fn run(context: &mut Context, as_json: bool) -> Verdict {
    let system = System::default();
    let pools = find(&system)?;
    let own = ordinary::all(&context.dir);
    let supply = supply(&system);
    if as_json {
        let pool = |found: &Found| {
            let Found { pool, size, holders } = found;
            json!({
                "name": pool.name, "path": pool.mount.path.to_string_lossy(), "page": pool.page(),
                "bytes": size.bytes, "free_bytes": size.free_bytes, "holders": holders,
            })
        };
        let pools: Vec<_> = pools.iter().map(pool).collect();
        context.write_json(&json!({ "pools": pools, "ordinary": own, "supply": supply }))?;
        return Ok(FINE);
    }
    match (pools.is_empty(), own.is_empty()) {
        (true, true) => writeln!(context.out, "no pools; `still pages reserve SIZE` makes one")?,
        (true, false) => {}
        (false, _) => show_pools(context, &pools)?,
    }
    show_ordinary(context, &own)?;
    show_supply(context, &supply)?;
    Ok(FINE)
}

fn find(system: &System) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for pool in Pool::all(system)? {
        // One may be given back just now.
        if let Ok(size) = pool.size(system) {
            let holders = holders(system, &pool);
            found.push(Found { pool, size, holders });
        }
    }
    Ok(found)
}

/// Of each size: all, and each memory node where there are several.
fn supply(system: &System) -> Vec<Supply> {
    let nodes = system.nodes();
    let nodes: &[u32] = if nodes.len() > 1 { &nodes } else { &[] };
    let of = |page| std::iter::once(None).chain(nodes.iter().copied().map(Some)).map(move |node| (page, node));
    Page::ALL.into_iter().flat_map(of).filter_map(|(page, node)| system.supply(page, node).ok()).collect()
}

fn show_pools(context: &mut Context, pools: &[Found]) -> Result<(), Failure> {
    let columns = ["POOL", "PAGE", "SIZE", "FREE", "PROCESS", "HAS", "NODES"];
    let align = |name: &&'static str| match *name {
        "POOL" | "PROCESS" | "NODES" => (*name, Align::Left),
        name => (name, Align::Right),
    };
    let mut table = Table::new(&columns.iter().map(align).collect::<Vec<_>>());
    for Found { pool, size, holders } in pools {
        let whole = size.bytes.map_or_else(|| "-".into(), format_bytes);
        let own = vec![sanitize(&pool.name), pool.page().to_string(), whole, format_bytes(size.free_bytes)];
        let mut rows: Vec<Vec<String>> = holders.iter().map(holder_row).collect();
        if rows.is_empty() {
            rows.push(vec!["-".into(); 3]);
        }
        for (index, row) in rows.into_iter().enumerate() {
            let own = if index == 0 { own.clone() } else { vec![String::new(); own.len()] };
            table.push(own.into_iter().chain(row).collect());
        }
    }
    table.write(context.out)?;
    Ok(())
}

/// Those of ordinary large pages, of which regions have something and not processes.
fn show_ordinary(context: &mut Context, own: &[Ordinary]) -> Result<(), Failure> {
    let columns = [
        ("ORDINARY POOL", Align::Left),
        ("SIZE", Align::Right),
        ("LARGE", Align::Right),
        ("FREE", Align::Right),
        ("REGION", Align::Left),
        ("HAS", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for pool in own {
        let large = if pool.unfinished { "unfinished".into() } else { format_bytes(pool.large_bytes) };
        let sizes = [format_bytes(pool.bytes), large, format_bytes(pool.free_bytes)];
        let mut own: Vec<String> = std::iter::once(sanitize(&pool.name)).chain(sizes).collect();
        let regions = pool.regions.iter().map(|region| [sanitize(&region.name), format_bytes(region.bytes)]);
        let mut rows: Vec<[String; 2]> = regions.collect();
        if rows.is_empty() {
            rows.push(["-".into(), "-".into()]);
        }
        for row in rows {
            let next = vec![String::new(); own.len()];
            table.push(std::mem::replace(&mut own, next).into_iter().chain(row).collect());
        }
    }
    if !own.is_empty() {
        writeln!(context.out)?;
        table.write(context.out)?;
    }
    Ok(())
}

fn holder_row(holder: &Holder) -> Vec<String> {
    let nodes = holder.by_node.iter().map(|(node, bytes)| format!("{node}: {}", format_bytes(*bytes)));
    let nodes: Vec<String> = nodes.collect();
    vec![format!("{} ({})", sanitize(&holder.command), holder.pid), format_bytes(holder.bytes), nodes.join(", ")]
}

fn show_supply(context: &mut Context, supply: &[Supply]) -> Result<(), Failure> {
    let columns = [
        ("PAGES OF", Align::Right),
        ("NODE", Align::Left),
        ("RESERVED", Align::Right),
        ("FREE", Align::Right),
        ("PROMISED", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for one in supply {
        let node = one.node.map_or_else(|| "all".into(), |node| node.to_string());
        let promised = one.promised.map_or_else(|| "-".into(), |count| count.to_string());
        table.push(vec![one.page.to_string(), node, one.total.to_string(), one.free.to_string(), promised]);
    }
    writeln!(context.out)?;
    table.write(context.out)?;
    Ok(())
}
