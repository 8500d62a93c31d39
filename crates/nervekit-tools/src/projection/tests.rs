use super::*;
use crate::sample::{Random, numbered};

#[test]
fn case_68_cuts_never_split_a_character_around_every_limit() {
    let samples = [
        format!("x{}", "中".repeat(400)),
        "é".repeat(600),
        "👩\u{200d}🚀".repeat(100),
        format!("{}\n{}", "中".repeat(150), "é\n".repeat(200)),
    ];
    for sample in &samples {
        for keep in [Keep::Head, Keep::Tail, Keep::Both] {
            for bytes in 397..=403 {
                let cut = cut(sample, &OutputBudget::new(bytes, 1_000).keep(keep));
                assert!(cut.text.len() <= bytes, "{} > {bytes}", cut.text.len());
                assert!(cut.is_cut());
                assert!(cut.text.contains("left out here"), "{}", cut.text);
                assert!(!cut.text.contains('\u{fffd}'));
            }
        }
        for bytes in 0..12 {
            assert!(clip(sample, bytes).contains("bytes]"));
        }
        // Both ends cut at every byte offset.
        for at in 0..20.min(sample.len()) {
            let (head, tail) = sample.as_bytes().split_at(at);
            let cut = cut_ends(head, tail, sample.len() as u64 + 1, &OutputBudget::new(100_000, 100_000));
            assert!(!cut.text.contains('\u{fffd}'), "{at}: {}", cut.text);
        }
    }
}

#[test]
fn any_bytes_and_any_budget_give_a_bounded_text() {
    let mut random = Random::new();
    for _ in 0..3_000 {
        let pieces: [&[u8]; 10] = [
            b"\n",
            b"\r",
            b"\r\n",
            b"\x1b[31m",
            b"\xff",
            b"\x00",
            "中".as_bytes(),
            b"plain",
            b"\x1b]0;",
            b"\xe4",
        ];
        let bytes: Vec<u8> = (0..random.below(60)).flat_map(|_| pieces[random.below(10)].to_vec()).collect();
        let text = plain_text(&bytes);
        assert!(!text.contains(['\u{1b}', '\r', '\0']), "{text:?}");
        let budget = OutputBudget::new(100 + random.below(200), random.below(9))
            .keep([Keep::Head, Keep::Tail, Keep::Both][random.below(3)]);
        let short = cut(&text, &budget);
        assert!(short.text.len() <= budget.bytes, "{budget:?} {text:?}");
        assert!(count_lines(&short.text) <= budget.lines as u64 + 1 + 1, "{budget:?} {:?}", short.text);
        if !short.is_cut() {
            assert_eq!(short.text, text);
        }
        let at = random.below(bytes.len() + 1);
        let (head, tail) = bytes.split_at(at);
        let ends = cut_ends(head, tail, bytes.len() as u64 + 7, &budget);
        assert!(ends.text.len() <= budget.bytes);
    }
}

#[test]
fn the_three_ends_are_kept_as_asked() {
    let text = numbered("line", 1_000);
    let budget = OutputBudget::new(24_000, 10);
    let head = cut(&text, &budget.keep(Keep::Head)).text;
    assert!(head.starts_with("line 1\n") && head.contains("line 10\n[… "), "{head}");
    let tail = cut(&text, &budget.keep(Keep::Tail)).text;
    assert!(tail.starts_with("[… ") && tail.ends_with("line 1000\n") && tail.contains("line 991\n"));
    let both = cut(&text, &budget).text;
    assert!(both.starts_with("line 1\n") && both.ends_with("line 1000\n"));
    assert!(both.contains("in 990 lines left out"), "{both}");
}

#[test]
fn terminal_escapes_are_stripped_and_progress_bars_show_their_last_state() {
    for (given, wanted) in [
        (&b"\x1b[1;31mred\x1b[0m"[..], "red"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(Btext", "text"),
        (b" 1%\r 2%\r100%\r\n", "100%\n"),
        (b"a\rb", "b"),
        (b"\x1b]never ends\nnext", "\nnext"),
        (b"\x1b", ""),
        (b"\x1b[", ""),
        ("\u{9b}31mred".as_bytes(), "red"),
        (b"a\x08b\x7f", "a\u{2408}b\u{2421}"),
    ] {
        assert_eq!(plain_text(given), wanted, "{given:?}");
    }
}

#[test]
fn case_58_lone_surrogates_and_nul_become_valid_text() {
    let text = plain_text(b"\xed\xa0\x80 \0 \xff");
    assert_eq!(text, "\u{fffd}\u{fffd}\u{fffd} \u{2400} \u{fffd}");
    assert!(serde_json::to_string(&text).is_ok());
}
