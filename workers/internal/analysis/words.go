package analysis

// stopWords contains the most common function words of each language. The lists are intentionally
// short: a missing word costs little, but a word that is listed by mistake cannot be found, because
// searches ignore stop words.
var stopWords = map[string]string{
	"en": `a an the and or but if of to in on at by for from with as is are was were be been being am do does did has have had having
		it its this that these those there here he she they we you i me him her them us my your his their our what which who whom whose
		when where why how not no nor so than then too very can could should would will shall may might must into about over under
		again also any each some such only own same both between through during before after above below up down out off
		don't doesn't didn't isn't aren't can't won't it's i'm you're`,
	"de": `der die das den dem des ein eine einen einem einer eines und oder aber wenn als wie von zu zum zur im in am an auf aus bei mit
		nach für um durch über unter vor ist sind war waren wird werden wurde wurden sein hat haben hatte ich du er sie es wir ihr mich
		mir dich dir sich uns euch ihm ihn ihnen mein dein unser euer nicht kein keine nur noch auch so dass daß was wer wo wann warum
		welche welcher welches dieser diese dieses diesem diesen kann können muss müssen soll sollen man dann da doch schon sehr`,
	"fr": `le la les l' un une des du de d' et ou mais si que qui quoi dont où quand comment pourquoi à au aux en dans par pour sur sous
		avec sans entre vers chez est sont était étaient être suis es sommes êtes a ont avait avoir ai as avons avez je tu il elle
		on nous vous ils elles me te se lui leur leurs mon ma mes ton ta tes son sa ses notre votre nos vos ce cet cette ces ne pas plus
		y comme aussi très tout tous toute toutes quel quelle quels quelles ceci cela ça donc car ni`,
	"es": `el la los las un una unos unas de del y o u pero si que quien quienes cual cuales qué quién cuál como cómo cuando cuándo donde
		dónde por para con sin sobre entre hasta desde a al en es son era eran ser sido está están estar fue fueron ha han había haber
		he has yo tú él ella ello nosotros vosotros ellos ellas me te se nos os le les lo mi mis tu tus su sus nuestro nuestra este esta
		estos estas ese esa esos esas esto eso no ni más muy también ya porque`,
	"it": `il lo la i gli le un uno una di del dello della dei degli delle a al allo alla ai agli alle da dal dalla in nel nella nei con su
		sul sulla per tra fra e ed o ma se che chi cui quale quali cosa come quando dove perché è sono era erano essere stato ha hanno
		aveva avere ho io tu lui lei noi voi loro mi ti si ci vi ne mio mia tuo suo sua suoi sue nostro vostro questo questa questi queste
		quello quella non né più anche molto già`,
	"pt": `o a os as um uma uns umas de do da dos das em no na nos nas por pelo pela para com sem sobre entre até desde e ou mas se que
		quem qual quais como quando onde porque é são era eram ser sido está estão estar foi foram tem têm tinha ter há eu tu ele ela
		nós vós elas me te se lhe lhes meu minha seu sua seus suas nosso nossa este esta estes estas esse essa isto isso aquele
		aquela não nem mais muito também já ao à aos às`,
	"nl": `de het een en of maar als van naar te ten ter in op aan bij met voor door over onder uit om tot is zijn was waren wordt worden
		werd ben bent heeft hebben had ik jij je hij zij ze wij we jullie u mij me hem haar hen hun ons mijn jouw uw deze dit die dat
		niet geen ook nog wel dan dus zo wat wie waar wanneer waarom hoe welke er kan kunnen moet zal zou`,
	"sv": `och eller men om att det den de en ett i på av för med till från vid under över mellan är var vara varit blir bli blev har hade
		ha jag du han hon vi ni de dem mig dig honom henne oss er min din sin vår denna detta dessa som vad vem var när hur varför
		vilken inte ej ingen också så då än kan ska skall skulle måste`,
	"da": `og eller men om at det den de en et i på af for med til fra ved under over mellem er var være været bliver blive blev har havde
		have jeg du han hun vi i de dem mig dig ham hende os jer min din sin vores denne dette disse som hvad hvem hvor hvornår hvordan
		hvorfor hvilken ikke ingen også så da end kan skal skulle vil må`,
	"no": `og eller men om at det den de en et ei i på av for med til fra ved under over mellom er var være vært blir bli ble har hadde ha
		jeg du han hun vi dere de dem meg deg ham henne oss min din sin vår denne dette disse som hva hvem hvor når hvordan hvorfor
		hvilken ikke ingen også så da enn kan skal skulle vil må`,
	"fi": `ja tai mutta jos että kun kuin niin on ovat oli olivat olla ollut ei eivät en et emme se ne tämä nämä tuo nuo joka jotka mikä mitä
		kuka missä milloin miksi miten minä sinä hän me te he minun sinun hänen sen niiden myös vain sekä kanssa`,
	"ro": `și sau dar dacă că ca de la în din pe cu pentru prin despre între până este sunt era erau fi fost a au avea am ai are eu tu el
		ea noi voi ei ele mă te se ne vă îl o îi le un o unei unui al ale cel cea cei cele acest această acești aceste care ce cine unde
		când cum nu nici mai foarte`,
	"hu": `a az egy és vagy de ha hogy mint is nem ne se van vannak volt voltak lesz lenni én te ő mi ti ők ez ezek azok ezt azt aki ami
		amely mely mi ki hol mikor miért hogyan csak már még meg el ki be fel le`,
	"tr": `ve veya ya da ile ama fakat için gibi kadar bu şu o bir ben sen biz siz onlar ne kim nerede nasıl neden niçin mı mi mu mü de da
		ki daha çok en değil var yok olan olarak her`,
	"ga": `an na agus nó ach i sa ar ag le ó do de go is tá bhí mé tú sé sí muid sibh siad seo sin a ní nach cad cé cá conas`,
	"ca": `el la els les un una uns unes de del dels i o però si que qui quin com quan on per amb sense sobre entre a al als en és són era ser ha han no més molt també`,
	"pl": `i lub oraz ale jeśli że jak w we z ze na do od po za przez dla o u przy nad pod jest są był była było były być ja ty on ona ono my wy oni się nie ten ta to te tego tej tym co kto gdzie kiedy dlaczego który która które już tylko także`,
	"cs": `a nebo ale jestli že jak v ve z ze s se na do od po za pro o u při nad pod je jsou byl byla bylo byly být já ty on ona ono my vy oni si ne ten ta to ti tyto tento tato co kdo kde kdy proč který která které již jen také i`,
	"hr": `i ili ali ako da kao u iz s sa na do od po za o pri nad pod je su bio bila bilo biti ja ti on ona ono mi vi oni se ne taj ta to ovaj ova ovo što tko gdje kada zašto koji koja koje već samo`,
	"id": `yang dan atau di ke dari untuk dengan pada adalah ini itu tidak akan telah sudah oleh sebagai dalam juga saya anda dia kami kita mereka apa siapa bagaimana kapan mengapa`,
	"eu": `eta edo baina da dira zen ziren izan ez bat hau hori hura ni zu gu zuek haiek zer nor non noiz nola`,
	"ru": `и или но а если что как в во с со на по из за от до для о об при над под к ко у это этот эта эти тот та те то я ты он она оно мы вы они его её их мне тебе ему ей нам вам им не ни же бы ли был была было были быть есть кто где когда почему который которая которые так уже только также`,
	"uk": `і й та або але а якщо що як в у з із зі на по за від до для про при над під це цей ця ці той я ти він вона воно ми ви вони його її їх не ні же б чи був була було були бути є хто де коли чому який яка які так вже тільки також`,
	"bg": `и или но а ако че как в във с със на по за от до при над под това този тази тези аз ти той тя то ние вие те го я ги не ни се си е са бил била било бяха да ще кой коя кое къде кога защо който която които също само`,
	"el": `ο η το οι τα του της των τον την και ή αλλά αν ότι πως σε στο στη στην στον στα από για με χωρίς είναι ήταν να θα δεν μη εγώ εσύ αυτός αυτή αυτό εμείς εσείς τι ποιος πού πότε πώς γιατί που ένα μια ένας`,
	"ar": `و في من على إلى عن مع هذا هذه ذلك تلك الذي التي الذين أن إن لا ما لم لن هو هي هم نحن أنا أنت كان كانت يكون قد كل أو ثم بين كيف متى أين لماذا`,
	"fa": `و در به از که این آن را با برای است بود شد می یا اما اگر هم تا بر من تو او ما شما چه کجا چرا چگونه`,
	"hi": `और या का की के को में से पर है हैं था थी थे यह वह ये वे कि जो तो भी नहीं एक मैं तुम हम आप क्या कौन कहाँ कब क्यों कैसे ने लिए`,
	"he": `של את על אל עם או כי אם לא זה זו זאת הוא היא הם אני אתה מה מי איפה מתי למה איך כל גם רק היה`,
	"vi": `và hoặc là của có không cho với trong trên từ đến này đó những các một được bị tôi bạn gì ai đâu khi nào sao`,
}

// inflections contains word endings of languages that have no Snowball algorithm. They are mainly
// endings of nouns and adjectives, and of verbs in languages with many verb forms.
var inflections = map[string]string{
	"pl": `owie ami ach ów om em ie ego emu ymi imi ych ich ym im ej ą ę a e i o u y owi ować uje ujesz ują ował owała ali ały ała ało ać eć ić yć`,
	"cs": `ami emi ách ích ům em ém ého ému ými ích ých ým ím ou ů a e i o u y á é í ý ě ové ovi ovat uje ují oval ovala ali aly ala alo at it et`,
	"hr": `ima ama evi ovi ova eva om em og oga ome omu ih im oj a e i o u`,
	"ca": `aments ament acions ació ants ant ats ades ada at ir ar er es os is s a e o`,
	"uk": `ами ями ові еві ого ому ими ої ою ею ів їв ах ях ам ям ий ій им ом ем їм і ї а я о е є у ю и ь ти ть ла ло ли в`,
	"bg": `овете ището ията ият ите ата ята ото ето ът ят та то те ове ища ни на но ен ия а я о е и у`,
	"fa": `هایی های ها ترین تر ات ان ی`,
	"el": `ματων ματα ματος ους ων ος ου ης ες ας εις οι ον αν ην α η ο ι ω ε ει`,
	"hi": `ियों ियां ियाँ ाओं ुओं ाएं ाएँ ों ें ीं ां ाँ ो े ी ा ि ु ू ं`,
}
