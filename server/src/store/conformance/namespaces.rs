//! Namespaces, notifications, names and data.

use super::*;

pub(in crate::store) async fn dropping_a_namespace_leaves_nothing_behind(harness: Harness) {
    let (gone, stays, key) = (namespace("gone"), namespace("stays"), Key::new("member", "x"));
    let fill = || {
        let mut writes = vec![put(&key, "1"), put(&Key::new("task", "y"), "2"), remember("k", ""), lease("l", LONG)];
        writes.extend((0..20).map(|_| append("s", "x")));
        writes.extend([append("t", "x"), append("emptied", "x"), remove("emptied", &[1])]);
        writes
    };
    for namespace in [&gone, &stays] {
        harness.commit_if(namespace, vec![key_unused("k")], fill()).await;
    }
    let before = harness.everything(&stays, &["member", "task"], &["s", "t", "emptied"]).await;
    assert_ne!((harness.raw_keys)(gone.clone()).await, [""; 0]);
    let mut notifications = harness.second.notifications();
    harness.commit(&gone, vec![delete(&key), Write::DropNamespace, notification("dropped")]).await;
    assert_eq!(
        notifications.recv().await,
        Ok(Notification::Topic { namespace: gone.clone(), topic: "dropped".to_owned(), by: 7 })
    );
    assert_eq!((harness.raw_keys)(gone.clone()).await, [""; 0]);
    assert_eq!(harness.everything(&stays, &["member", "task"], &["s", "t", "emptied"]).await, before);
    // Its idempotency key is unused again.
    harness.commit_if(&gone, vec![key_unused("k"), lease_alive("l", false), at(&key, None)], fill()).await;
    assert_eq!(harness.extent(&gone, "s").await.next, 21);
    // Dropping a namespace that never existed is harmless.
    harness.commit(&namespace("never"), vec![Write::DropNamespace]).await;
    assert_eq!((harness.raw_keys)(namespace("never")).await, [""; 0]);
}

pub(in crate::store) async fn namespaces_are_isolated(harness: Harness) {
    let key = Key::new("member", "x");
    // Names with common prefixes.
    let namespaces = [namespace("a"), namespace("aa"), namespace("a.b"), Namespace::directory()];
    for namespace in &namespaces {
        let checks = vec![at(&key, None), key_unused("k"), lease_alive("l", false)];
        let writes = vec![put(&key, "x"), append("s", "x"), remember("k", ""), lease("l", LONG)];
        assert_eq!(harness.commit_if(namespace, checks, writes).await.appended, [Some(1)]);
    }
    harness.commit(&namespaces[0], vec![Write::DropNamespace]).await;
    assert_eq!(harness.read(&namespaces[0], &key).await, None);
    for namespace in &namespaces[1..] {
        assert_eq!(harness.read(namespace, &key).await.unwrap().data, "x");
        harness.commit_if(namespace, vec![lease_alive("l", true)], vec![]).await;
        harness.refused(namespace, vec![key_unused("k")], vec![]).await;
    }
}

pub(in crate::store) async fn notifications_reach_every_subscriber(harness: Harness) {
    let namespace = namespace("a");
    let mut receivers = [harness.store.notifications(), harness.second.notifications(), harness.second.notifications()];
    harness.refused(&namespace, vec![lease_alive("l", true)], vec![notification("refused")]).await;
    harness.commit(&namespace, vec![notification("inbox/x"), append("s", ""), notification("y")]).await;
    for receiver in &mut receivers {
        for topic in ["inbox/x", "y"] {
            assert_eq!(
                receiver.recv().await,
                Ok(Notification::Topic { namespace: namespace.clone(), topic: topic.to_owned(), by: 7 })
            );
        }
    }
}

pub(in crate::store) async fn data_can_be_any_bytes(harness: Harness) {
    let namespace = namespace("a");
    let every_byte: Vec<u8> = (0..=255).collect();
    let long: Vec<u8> = (0..1 << 20).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (index, data) in [Vec::new(), b"\0".to_vec(), b"\r\n$3\r\n".to_vec(), every_byte, long].into_iter().enumerate()
    {
        let (data, key) = (Bytes::from(data), Key::new("member", format!("{index}")));
        let stream = format!("stream-{index}");
        let writes = vec![
            Write::Put { key: key.clone(), data: data.clone() },
            Write::Append { stream: stream.clone(), data: data.clone(), weight: 0, bound: None },
            Write::RememberReply { key: stream.clone(), data: data.clone() },
        ];
        harness.commit(&namespace, writes).await;
        assert_eq!(harness.read(&namespace, &key).await.unwrap().data, data);
        assert_eq!(harness.entries(&namespace, &stream).await, [(1, data.clone())]);
        assert_eq!(
            harness.refused(&namespace, vec![key_unused(&stream)], vec![]).await,
            Failed::KeyUsed { data: data.clone() }
        );
        let failed = harness.refused(&namespace, vec![at(&key, None)], vec![]).await;
        assert!(matches!(failed, Failed::Version { current: Some(record), .. } if record.data == data));
    }
}

pub(in crate::store) async fn names_can_contain_any_visible_character(harness: Harness) {
    let visible: String = (0x21..=0x7e_u8).map(char::from).collect();
    let long = "~".repeat(200);
    let namespace = namespace("A-b_c.9");
    for name in [visible.as_str(), long.as_str(), "{}", "a:b", "a/b", "1"] {
        let key = Key::new("member", name);
        let mut notifications = harness.store.notifications();
        let writes = vec![
            put(&key, "x"),
            append(name, "x"),
            remember(name, ""),
            lease(name, LONG),
            notification(name),
            append(name, "y"),
        ];
        harness.commit_if(&namespace, vec![at(&key, None), key_unused(name), lease_alive(name, false)], writes).await;
        assert_eq!(harness.read(&namespace, &key).await.unwrap().data, "x");
        assert_eq!(harness.entries(&namespace, name).await, [(1, text("x")), (2, text("y"))]);
        assert!(harness.store.leases(&namespace).await.unwrap().until_ms.contains_key(name));
        assert_eq!(
            notifications.recv().await,
            Ok(Notification::Topic { namespace: namespace.clone(), topic: name.to_owned(), by: 7 })
        );
        harness.refused(&namespace, vec![key_unused(name)], vec![]).await;
    }
    let scanned = harness.store.scan(&namespace, "member", "", 10).await.unwrap();
    assert!(scanned.iter().any(|(id, _)| *id == visible));
}

pub(in crate::store) async fn version_differs_once_anything_but_leases_has_changed(h: Harness) {
    let (space, other, key) = (namespace("a"), namespace("b"), Key::new("task", "1"));
    let version = async |namespace: &Namespace| {
        let version = h.store.version(namespace).await.unwrap();
        assert_eq!(h.second.version(namespace).await.unwrap(), version);
        version
    };
    h.commit(&other, vec![put(&key, "other")]).await;
    let other_before = version(&other).await;
    let mut seen = vec![version(&space).await];
    let changes = [
        vec![put(&key, "1")],
        vec![put(&key, "1")],
        vec![append("s", "x")],
        vec![lease("l", LONG), put(&key, "2")],
        vec![remove("s", &[1])],
        vec![remember("key", "x")],
        vec![delete(&key), Write::EndLease { name: "l".to_owned() }],
    ];
    for writes in changes {
        let change = format!("{writes:?}");
        let checks = if change.contains("RememberReply") { vec![key_unused("key")] } else { Vec::new() };
        h.commit_if(&space, checks, writes).await;
        let found = version(&space).await;
        assert!(!seen.contains(&found), "{change}: {found} of {seen:?}");
        seen.push(found);
        h.refused(&space, vec![at(&key, Some(1))], vec![delete(&key)]).await;
        let end = Write::EndLease { name: "m".to_owned() };
        for leases in [vec![lease("l", LONG)], vec![lease("l", LONG), lease("m", LONG)], vec![end]] {
            h.commit(&space, leases).await;
            assert_eq!(version(&space).await, found, "after {change}");
        }
    }
    assert_eq!(version(&other).await, other_before);
    h.commit(&space, vec![put(&key, "x"), Write::DropNamespace]).await;
    assert!(!seen[1..].contains(&version(&space).await));
    h.commit(&space, vec![lease("l", LONG)]).await;
    h.commit(&space, vec![put(&key, "1")]).await;
    assert!(!seen.contains(&version(&space).await));
}
