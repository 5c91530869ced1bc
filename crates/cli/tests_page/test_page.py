"""Goal: the page of a report draws the figures of its store, for everyone, and asks nobody for anything.

Method: pages are opened in chromium from their files, and what is drawn is counted, pointed at and compared.
"""

import json
import re

import pytest
from conftest import scheme
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait


def open_page(browser, page):
    browser.get(page.as_uri())
    # A chart is drawn when its room is known.
    WebDriverWait(browser, 20).until(
        lambda browser: all(figure.find_elements(By.CSS_SELECTOR, "svg[viewBox] .axis")
                            for figure in browser.find_elements(By.TAG_NAME, "figure")))


def count(browser, selector):
    return len(browser.find_elements(By.CSS_SELECTOR, selector))


def text(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector).text


def filled(histogram, *names):
    """Values of a histogram that are above 0: each is one piece of a bar."""
    return sum(bin[name] > 0 for bin in histogram["bins"] for name in names)


def test_each_value_is_a_bar(browser, recorded):
    open_page(browser, recorded.page)
    buffer, past, drift = (recorded.figures[name] for name in ["buffer", "past", "drift"])
    states = ["fresh", "stale", "out_of_window", "missing", "from_future"]
    assert count(browser, "#ages .bar") == filled(buffer["ages"], *states) > 0
    assert count(browser, "#lags .bar") == filled(buffer["lags"], *states) > 0
    assert count(browser, "#computed .bar") == filled(past["steps"], "computed", "scheduled") > 0
    assert count(browser, "#retired .bar") == sum(len(bin["retired"]) for bin in past["steps"]["bins"]) > 0
    assert count(browser, "#differences .bar") == filled(drift["differences"], "count") > 0
    assert count(browser, "#lengths .bar") == filled(buffer["lengths"], "count") > 0
    pieces = sum((one["live_bytes"] > 0) + (one["dead_bytes"] > 0) for one in recorded.figures["segments"])
    assert count(browser, "#segments .bar") == pieces > 0


def test_bars_are_as_high_as_their_values(browser, recorded):
    open_page(browser, recorded.page)
    bins = recorded.figures["buffer"]["lengths"]["bins"]
    heights = [float(bar.get_attribute("height")) for bar in browser.find_elements(By.CSS_SELECTOR, "#lengths .bar")]
    unit = heights[0] / bins[0]["count"]
    assert heights == pytest.approx([bin["count"] * unit for bin in bins], abs=0.01)


def test_figures_are_those_of_stat(browser, recorded):
    open_page(browser, recorded.page)
    stat = recorded.stat()
    for tile, name in [("live", "live"), ("stale", "stale"), ("out-of-window", "out_of_window"), ("missing", "missing"), ("tokens", "tokens")]:
        assert text(browser, f"#tile-{tile}") == f"{stat[name]:,}", name
    counters = stat["counters"]
    assert f"computed {counters['computed']} rollouts" in text(browser, "#recompute .answer")
    assert f"{counters['retired']['superseded']:,} superseded" in text(browser, "#ends .answer")


def test_a_value_is_shown_at_the_pointer(browser, recorded):
    open_page(browser, recorded.page)
    assert not browser.find_element(By.ID, "tip").is_displayed()
    age = recorded.figures["buffer"]["ages"]["bins"][0]
    hit = browser.find_element(By.CSS_SELECTOR, "#ages .hit")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", hit)
    ActionChains(browser).move_to_element(hit).perform()
    assert text(browser, "#tip") == f"age {age['from']}\nfresh: {age['fresh']}"
    ActionChains(browser).move_to_element(browser.find_element(By.CSS_SELECTOR, "h2")).perform()
    assert not browser.find_element(By.ID, "tip").is_displayed()


def test_a_worst_rollout_leads_to_its_tokens(browser, recorded):
    open_page(browser, recorded.page)
    worst = recorded.figures["drift"]["worst"]
    links = browser.find_elements(By.CSS_SELECTOR, "#drift a")
    assert [link.text for link in links] == [one["id"] for one in worst]
    tokens = browser.find_element(By.ID, f"tokens-{worst[0]['id']}")
    assert tokens.get_attribute("open") is None
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", links[0])
    links[0].click()
    WebDriverWait(browser, 10).until(lambda _: tokens.get_attribute("open") is not None)
    assert len(tokens.find_elements(By.CSS_SELECTOR, "tbody tr")) == len(worst[0]["old_logps"])
    shown = [cell.text for cell in tokens.find_elements(By.CSS_SELECTOR, "tr.most td")]
    at = worst[0]["at"] - worst[0]["first"]
    columns = ["token_ids", "old_logps", "sampler_logps", "differences", "ratios"]
    assert shown[0] == str(worst[0]["at"])
    assert [float(cell) for cell in shown[1:6]] == [worst[0][column][at] for column in columns]


def colours(browser):
    return [browser.find_element(By.CSS_SELECTOR, selector).value_of_css_property(property)
            for selector, property in [("body", "background-color"), ("section", "background-color"), ("h2", "color"), ("svg text", "fill")]]


def contrast(one, other):
    """The contrast of two colours, by the formula of WCAG."""
    def light(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    dark, bright = sorted([light(one), light(other)])
    return (bright + 0.05) / (dark + 0.05)


def test_dark_and_light_have_colours_of_their_own_that_can_be_read(browser, recorded):
    open_page(browser, recorded.page)
    light = colours(browser)
    scheme(browser, "dark")
    dark = colours(browser)
    assert all(one != other for one, other in zip(light, dark, strict=True)), (light, dark)
    for _, card, heading, label in [light, dark]:
        assert contrast(card, heading) >= 7 and contrast(card, label) >= 4.5
    browser.find_element(By.ID, "theme").click()
    assert colours(browser) == light, "the button is above the system"


def test_colour_is_never_the_only_sign(browser, recorded):
    open_page(browser, recorded.page)
    for figure in browser.find_elements(By.TAG_NAME, "figure"):
        drawing = figure.find_element(By.CSS_SELECTOR, ":scope > svg")
        assert drawing.get_attribute("role") == "img" and drawing.get_attribute("aria-label")
        assert figure.find_elements(By.CSS_SELECTOR, "table tbody tr"), "a table says the same"
        paints = {bar.get_attribute("data-series"): bar.get_attribute("fill") for bar in figure.find_elements(By.CSS_SELECTOR, ".bar")}
        patterns = [re.search(r"-(\d)\)", paint).group(1) for paint in paints.values()]
        assert len(set(patterns)) == len(patterns), paints


def test_a_phone_shows_all_without_scrolling_sideways(browser, recorded):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    try:
        open_page(browser, recorded.page)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        assert min(float(label.value_of_css_property("font-size")[:-2]) for label in browser.find_elements(By.CSS_SELECTOR, "svg text")) >= 12
        # Drawn for the room that there is, not scaled down.
        box = browser.find_element(By.CSS_SELECTOR, "#ages > svg").get_dom_attribute("viewBox").split()
        assert float(box[2]) <= 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("store", ["recorded", "hostile"])
def test_the_page_asks_for_nothing_and_complains_of_nothing(browser, store, request):
    store = request.getfixturevalue(store)
    open_page(browser, store.page)
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    assert asked, "requests are recorded"
    assert [url for url in asked if url not in (store.page.as_uri(), "data:,")] == []
    assert browser.get_log("browser") == []


def test_hostile_text_is_shown_as_text(browser, hostile):
    open_page(browser, hostile.page)
    assert hostile.figures["store"] == str(hostile.path)
    assert text(browser, "h1") == str(hostile.path)
    assert count(browser, "img") == 0
    assert count(browser, "script") == 2


def test_a_store_that_does_not_open_tells_its_damage_and_its_log(browser, hostile):
    open_page(browser, hostile.page)
    assert hostile.figures["buffer"] is None
    assert count(browser, "#damage tbody tr") == len(hostile.figures["damage"]) > 0
    assert count(browser, "#retired .bar") > 0
    assert count(browser, "#staleness") == 0
