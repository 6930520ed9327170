"""What a subscription remembers."""

from teamwire._subscription import Window


def test_a_message_is_new_once() -> None:
    window = Window()
    assert [window.deliver("a"), window.deliver("a")] == [None, False]
    window.ack("a")
    assert window.deliver("a") is True


def test_the_oldest_is_forgotten_when_the_window_is_full() -> None:
    window = Window(2)
    assert [window.deliver(id) for id in "abc"] == [None, None, None]
    assert [window.deliver(id) for id in "ca"] == [False, None]
